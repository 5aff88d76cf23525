package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"syscall"

	"golang.org/x/sync/errgroup"

	"holdfast/queue"
)

// Run boots a node and blocks until ctx ends or something fails, and all that
// the node held is given back. It returns nil after a stop that ctx asked for.
//
// Errors: *ConfigError, ErrLocked, ErrRefused, and others.
//
// Boot goes from what excludes others to what invites them:
//
//  1. The lock on the directory, before any file in it is looked at.
//  2. The listener. A taken port is found out before a database is created or
//     migrated, and an orchestrator gets its liveness answer during a long
//     opening.
//  3. The queue. Until it is open /readyz says why not, and the API answers
//     503: nothing is accepted that could not be kept.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	lock, err := lockData(cfg.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	listener, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	n := &node{cfg: cfg, api: NewAPI(cfg), url: "http://" + listener.Addr().String()}
	n.server = newServer(n.api, cfg)
	cfg.Logger.Info("listening", "url", n.url)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := n.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", n.url, err)
		}
		return nil
	})
	g.Go(func() error { return n.work(ctx) })
	return g.Wait()
}

// engine is what a node needs of a [queue.Queue] besides the Store.
type engine interface {
	Store
	DrainClaims()
	Failed() <-chan struct{}
	Err() error
	Close() error
}

// opener is queue.Open, or what a test puts in its place.
type opener func(ctx context.Context, path string, opts queue.Options) (engine, error)

func openQueue(ctx context.Context, path string, opts queue.Options) (engine, error) {
	q, err := queue.Open(ctx, path, opts)
	if err != nil {
		return nil, err // not q: an engine with a nil pointer in it is not nil
	}
	return q, nil
}

// node is what Run holds between boot and shutdown.
type node struct {
	cfg    Config
	api    *API
	server *http.Server
	url    string
}

// work opens the queue, lets requests in, waits for a reason to stop, and
// stops. Whatever happens, the server is down when it returns, so that Run
// does not wait for it for ever.
func (n *node) work(ctx context.Context) error {
	q, err := n.cfg.open(ctx, filepath.Join(n.cfg.Data, databaseName), queue.Options{
		Logger:        n.cfg.Logger,
		MaxRound:      n.cfg.MaxRound,
		DiskWatermark: n.cfg.DiskWatermark,
	})
	if err != nil {
		n.stopServer(ctx)
		return openError(ctx, err)
	}
	n.api.Open(q)
	n.cfg.Logger.Info("ready", "url", n.url, "seq", q.Seq().String())
	if n.cfg.OnReady != nil {
		n.cfg.OnReady(n.url)
	}
	select {
	case <-ctx.Done():
	case <-q.Failed():
		err = fmt.Errorf("queue: %w", q.Err())
	}
	return errors.Join(err, n.stop(ctx, q))
}

// stop is boot in reverse: invite no one, let go of those who wait, finish
// what runs, close the file. Run drops the lock last, when nothing of this
// process can touch the directory any more.
//
//  1. /readyz turns 503, so that a proxy looks elsewhere.
//  2. Waiting claims are answered, empty: they would hold the server for up
//     to a minute, and a job handed out now would be orphaned soon. From here
//     on no claim hands out a job.
//  3. The server stops: no new connection, and each request under way gets
//     its answer. This must come before the queue closes, for those answers
//     need it.
//  4. The queue closes. A request that outlived the grace time is cut off by
//     now, and what it still asks of the queue is answered with ErrClosed.
func (n *node) stop(ctx context.Context, q engine) error {
	n.cfg.Logger.Info("stopping")
	n.api.Stop()
	q.DrainClaims()
	n.stopServer(ctx)
	if err := q.Close(); err != nil {
		return fmt.Errorf("close queue: %w", err)
	}
	n.cfg.Logger.Info("stopped")
	return nil
}

func (n *node) stopServer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShutdownGrace)
	defer cancel()
	err := n.server.Shutdown(ctx)
	if err == nil {
		return
	}
	n.cfg.Logger.Warn("requests were cut off", "grace", n.cfg.ShutdownGrace, "err", err)
	// Shutdown closed the listener and told why it gave up; Close has nothing
	// to add but the connections that it fails to close.
	_ = n.server.Close()
}

// openError turns an error of queue.Open into one of Run. A stop during a long
// opening is no error.
func openError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return nil
	case isRefusal(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("open queue: %w", err)
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another process uses this port; stop it or choose another address (--listen, HOLDFAST_LISTEN): %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	// A resolver can be told that localhost is elsewhere.
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen on %s: it resolves to %s, which is beyond loopback", addr, tcp.IP), listener.Close())
	}
	return listener, nil
}
