package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// Run boots a node and blocks until ctx ends or something fails, and all that
// the node held is given back. It returns nil after a stop that ctx asked for,
// unless what was committed could not be uploaded.
//
// Errors: *ConfigError, ErrLocked, ErrRefused, those of [replicate.Acquire],
// replicate.ErrFenced when another node took over, and others.
//
// Boot goes from what excludes others to what invites them:
//
//  1. The lock on the directory, before any file in it is looked at.
//  2. The listener. A taken port is found out before a database is created,
//     migrated or restored, and an orchestrator gets its liveness answer during
//     a long restore.
//  3. The root of the replica. It decides which database is the right one: the
//     local file, or one that is restored now.
//  4. The queue, with the epoch that the root gave out.
//  5. The stream, whose base must be complete and declared ready before the
//     first answer: what is acknowledged in an epoch that is not ready would be
//     no one's truth.
//
// Until then /readyz says what is awaited, and the API answers 503: nothing is
// accepted that could not be kept.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	if err := cfg.checkNew(); err != nil {
		return err
	}
	cert, err := cfg.certificate()
	if err != nil {
		return err
	}
	lock, err := lockData(cfg.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := cfg.checkOld(ctx); err != nil {
		return err
	}
	on, err := openListeners(ctx, cfg)
	if err != nil {
		return err
	}
	n := &node{cfg: cfg, api: NewAPI(cfg), url: urlOf(on.api.Addr(), cert != nil), handovers: make(chan *handover)}
	if cfg.Replication.Failover == replicate.FailoverAuto {
		n.api.handOver = n.handOver
	}
	if n.cfg.Advertise == "" {
		n.cfg.Advertise = cmp.Or(thisFlyMachine(os.Getenv).url(on.api.Addr()), n.url)
	}
	n.server = newServer(n.api, cfg)
	if n.sql, err = newSQLSide(ctx, cfg, n.api, cert, on.conns); err != nil {
		return errors.Join(err, on.close())
	}
	cfg.Logger.Info("listening", "url", n.url, "address", on.api.Addr().String())
	if cfg.AdminToken != "" && len(cfg.AdminToken) < StrongSecret {
		cfg.Logger.Warn(fmt.Sprintf("the admin token has fewer than %d characters and could be guessed", StrongSecret))
	}
	n.alerts = newAlerts(n.cfg, n.cfg.Advertise)
	return n.serve(ctx, on, cert, n.work, n.watch, n.alerts.run)
}

// serve runs the servers and work, which stops those of the API and of SQL before
// it returns, and beside it what ends with its context. It returns when all have.
func (n *node) serve(ctx context.Context, on listeners, cert *certificate, work func(context.Context) error, beside ...func(context.Context)) error {
	g, ctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	watched, stopWatch := context.WithCancel(ctx)
	for _, run := range beside {
		g.Go(func() error { run(watched); return nil })
	}
	g.Go(func() error {
		n.awaitBoot(ctx)
		if err := serveOn(n.server, on.api, cert); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", n.url, err)
		}
		return nil
	})
	if n.sql != nil {
		n.cfg.Logger.Info("serving SQL", "url", n.sql.url)
		g.Go(n.sql.serve)
	}
	g.Go(func() error {
		defer close(ended)
		defer stopWatch()
		return work(ctx)
	})
	g.Go(func() error { return n.serveMetrics(on.metrics, ended) })
	if n.cfg.Supervisor != nil {
		g.Go(func() error { n.supervise(ctx, ended); return nil })
	}
	return g.Wait()
}

// engine is what a node needs of a [queue.Queue] besides the Store.
type engine interface {
	Store
	DrainClaims()
	Failed() <-chan struct{}
	Err() error
	Close() error
	// Alive returns nil once the writer has come round.
	Alive(ctx context.Context) error
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
	sql    *sqlSide // nil: SQL is not served
	url    string

	alerts    *alerts
	handovers chan *handover
	leaving   *handover              // not settled yet; nil: none. It belongs to work
	writer    atomic.Pointer[engine] // the queue that was opened last; nil: none was yet
}

// fencedGrace is how long a node that lost its root may take over telling its
// clients so.
const fencedGrace = time.Second

// work reigns until there is a reason to stop. In auto mode a node that lost
// its place, or gave it away, becomes a standby and reigns again in its turn. Whatever happens, the
// server is down when work returns, so that Run does not wait for it for ever.
func (n *node) work(ctx context.Context) error {
	auto := n.cfg.Replication.Failover == replicate.FailoverAuto
	for {
		err := n.reign(ctx, auto)
		if errors.Is(err, errHandedOver) {
			if ctx.Err() == nil {
				continue
			}
			err = nil
		}
		if !auto || !errors.Is(err, replicate.ErrFenced) || ctx.Err() != nil {
			n.settle(client.Handover{}, &apiError{code: client.CodeUnavailable, message: "the node is stopping"})
			n.stopServer(ctx, n.cfg.ShutdownGrace) // if it was not the reason
			return err
		}
		n.cfg.Logger.Warn("this node lost its place and becomes a standby", "err", err)
	}
}

// reign boots, lets requests in, waits for a reason to stop, and stops. When
// keep is set and the root was lost, the server lives on.
func (n *node) reign(ctx context.Context, keep bool) error {
	p, err := n.acquire(ctx)
	if err != nil {
		return n.bootError(ctx, err)
	}
	q, err := n.open(ctx, p)
	if err != nil {
		told := n.bootError(ctx, err)
		return errors.Join(told, n.stopReplica(ctx, p, p.Err()))
	}
	n.sql.open(filepath.Join(n.cfg.Data, databaseName))
	n.api.Open(q)
	n.settle(client.Handover{Node: n.cfg.Node, URL: n.cfg.Advertise, Epoch: p.Epoch()}, nil) // nobody else took it
	n.cfg.Logger.Info("ready", "url", n.url, "seq", q.Seq().String(), "replica", p.Status().URL)
	if n.cfg.OnReady != nil {
		n.cfg.OnReady(n.url)
	}
	grace := n.cfg.ShutdownGrace
	select {
	case <-ctx.Done():
	case <-q.Failed():
		err = fmt.Errorf("queue: %w", q.Err())
	case <-p.Lost():
		err, grace = p.Err(), min(grace, fencedGrace)
		if keep {
			return errors.Join(err, n.abdicate(ctx, q, p, err))
		}
	case h := <-n.handovers:
		return n.makeWay(ctx, q, p, h)
	}
	return errors.Join(err, n.stop(ctx, q, p, grace, err))
}

// abdicate lets go of a database that is no one's truth any more. Requests under
// way are refused: their store closes, and what it still did has no meaning.
func (n *node) abdicate(ctx context.Context, q engine, p primary, told error) error {
	n.api.Shut("this node lost its place")
	q.DrainClaims()
	if err := errors.Join(n.sql.shut(), q.Close()); err != nil {
		return fmt.Errorf("close queue: %w", err)
	}
	return n.stopReplica(ctx, p, told)
}

// open opens the queue in the epoch of p, and starts the stream of its commits.
func (n *node) open(ctx context.Context, p primary) (engine, error) {
	n.api.NotReady("the database is being opened")
	q, err := n.cfg.open(ctx, filepath.Join(n.cfg.Data, databaseName), queue.Options{
		Logger:        n.cfg.Logger,
		Now:           now,
		MaxRound:      n.cfg.MaxRound,
		DiskWatermark: n.cfg.DiskWatermark,
		Epoch:         p.Epoch(),
		Lineage:       p.Lineage(),
		// The stream reads the WAL, and says when it has.
		ExternalCheckpoints: !n.cfg.NoReplica,
		OnChange:            n.api.feed.changed,
		OnCommit:            func(seq queue.Seq) { p.Notify(); n.api.feed.committed(seq) },
		GiveWay:             p.GiveWay,
	})
	if err != nil {
		return nil, fmt.Errorf("open queue: %w", err)
	}
	n.writer.Store(&q)
	if err := n.checkTokens(ctx, q); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	n.api.NotReady("the first copy of the database is being uploaded")
	if err := p.Start(ctx, func() int64 { return q.Seq().N }); err != nil {
		return nil, errors.Join(fmt.Errorf("start replication: %w", err), q.Close())
	}
	n.api.Replicate(p)
	return q, nil
}

// stop is boot in reverse: invite no one, let go of those who wait, finish
// what runs, close the file, upload its end. Run drops the lock last, when
// nothing of this process can touch the directory any more.
//
//  1. /readyz turns 503, so that a proxy looks elsewhere.
//  2. Waiting claims are answered, empty: they would hold the server for up
//     to a minute, and a job handed out now would be orphaned soon. From here
//     on no claim hands out a job.
//  3. The server stops: no new connection, and each request under way gets
//     its answer. This must come before the queue closes, for those answers
//     need it. A node that lost its root has only refusals to give, and does
//     not wait for long.
//  4. The queue closes, after the connections that SQL clients read it by. A request that outlived the grace time is cut off by
//     now, and what it still asks of the queue is answered with ErrClosed.
//  5. The stream stops. Only now is the last commit known: it is uploaded, and
//     the root is marked as closed there, so that the next node need not
//     look for this one. The bucket may be out of reach, so this has a
//     deadline; what it could not upload stays in the directory.
func (n *node) stop(ctx context.Context, q engine, p primary, grace time.Duration, told error) error {
	n.cfg.Logger.Info("stopping")
	n.api.Stop()
	q.DrainClaims()
	n.stopServer(ctx, grace)
	err := errors.Join(n.sql.shut(), q.Close())
	if err != nil {
		err = fmt.Errorf("close queue: %w", err)
	}
	if err := errors.Join(err, n.stopReplica(ctx, p, told)); err != nil {
		return err
	}
	n.cfg.Logger.Info("stopped")
	return nil
}

func (n *node) stopServer(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := n.server.Shutdown(ctx)
	n.sql.stop(ctx)
	if err == nil {
		return
	}
	n.cfg.Logger.Warn("requests were cut off", "grace", grace, "err", err)
	// Shutdown closed the listener and told why it gave up; Close has nothing
	// to add but the connections that it fails to close.
	_ = n.server.Close()
}

// bootError turns an error of the boot into one of Run. A stop during a long
// boot is no error, whatever it was that was cut short.
func (n *node) bootError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		n.cfg.Logger.Info("stopped before it was ready", "err", err)
		return nil
	case isRefusal(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
