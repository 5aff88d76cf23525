package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/node/hrana"
	"holdfast/queue"
	"holdfast/replicate"
)

// EdgeConfig is what an edge needs to run. Of Config it uses what has to do
// with serving, Replication's Replica, which it reads, and Data, in a folder of
// which it keeps its copies.
type EdgeConfig struct {
	Config
	// Primary is the URL of the primary's API; empty: as lock.json has it.
	Primary string
	// Token is an access token of the scope view for the primary's events. With
	// it the edge learns at once what was uploaded, and seldom looks at the
	// bucket. Empty: it is sent none, as to a primary without tokens.
	Token string
	// TLS is for https to the primary; nil: Go's own.
	TLS *tls.Config
}

const (
	edgeFolder = "edge" // of Data
	edgeLook   = time.Second
)

// edge is what RunEdge holds.
type edge struct {
	*node
	cfg    EdgeConfig
	copies *copies
	opened bool // of watch
}

// RunEdge follows the database in a root and serves reads of it until ctx ends.
// It writes nothing there: rights to read suffice. What it has from before is
// served at once, with its age.
//
// Errors: *ConfigError, ErrLocked when another edge uses the directory, and others.
func RunEdge(ctx context.Context, cfg EdgeConfig) (err error) {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg.Config = cfg.withDefaults()
	cert, err := cfg.certificate()
	if err != nil {
		return err
	}
	on, err := openListeners(ctx, cfg.Config)
	if err != nil {
		return err
	}
	e := &edge{cfg: cfg, node: &node{cfg: cfg.Config, api: NewAPI(cfg.Config), url: urlOf(on.api.Addr(), cert != nil)}}
	if e.node.cfg.Advertise == "" {
		e.node.cfg.Advertise = e.url
	}
	e.server = newServer(e.api, cfg.Config)
	if err := e.open(ctx, cert, on.conns); err != nil {
		return errors.Join(err, on.close())
	}
	cfg.Logger.Info("listening", "url", e.url, "address", on.api.Addr().String())

	g, ctx := errgroup.WithContext(ctx)
	ended := make(chan struct{})
	g.Go(func() error {
		if err := serveOn(e.server, on.api, cert); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", e.url, err)
		}
		return nil
	})
	if e.sql != nil {
		cfg.Logger.Info("serving SQL", "url", e.sql.url)
		g.Go(e.sql.serve)
	}
	g.Go(func() error {
		defer close(ended)
		return e.work(ctx)
	})
	g.Go(func() error { return e.serveMetrics(on.metrics, ended) })
	if cfg.Supervisor != nil {
		g.Go(func() error { e.supervise(ctx, ended); return nil })
	}
	return g.Wait()
}

func (c *EdgeConfig) validate() error {
	err := c.Config.Validate()
	if c.Primary == "" {
		return err
	}
	if u, fault := url.Parse(c.Primary); fault != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		problem := fmt.Sprintf("primary url: %q is not the URL of a node; write it like http://127.0.0.1:7780", c.Primary)
		if all, ok := errors.AsType[*ConfigError](err); ok {
			all.Problems = append(all.Problems, problem)
			return all
		}
		return &ConfigError{Problems: []string{problem}}
	}
	return err
}

// open takes the SQL port and the directory. What it has opened when it fails
// is closed, but for the listeners of its caller.
func (e *edge) open(ctx context.Context, cert *certificate, conns *connLimit) (err error) {
	e.copies = &copies{gate: e.api.gate, named: e.cfg.Primary}
	e.api.copies = e.copies
	e.api.Identify(client.Node{Node: e.node.cfg.Node, Role: client.RoleEdge, URL: e.node.cfg.Advertise})
	if e.cfg.SQLListen != "" {
		if e.copies.sql, err = hrana.NewDriver(); err != nil {
			return err
		}
		if e.sql, err = listenSQL(ctx, e.node.cfg, e.api, cert, conns, e.copies); err != nil {
			return err
		}
	}
	e.copies.follower, err = replicate.OpenFollower(ctx, replicate.FollowOptions{
		Dir: filepath.Join(e.cfg.Data, edgeFolder), Replica: e.cfg.Replication.Replica, Logger: e.cfg.Logger,
		Readers: true, Open: e.copies.open, Seq: e.copies.look,
	})
	if err == nil {
		return nil
	}
	if errors.Is(err, replicate.ErrFollowed) {
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if e.sql != nil {
		err = errors.Join(err, e.sql.listener.Close())
	}
	return err
}

// work follows until ctx ends, and stops: first no new request is let in, then
// those under way finish, which need the copies, and last the copies are closed.
func (e *edge) work(ctx context.Context) error {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return e.copies.follower.Run(following) })
	g.Go(func() error { e.watch(following); return nil })
	g.Go(func() error { e.subscribe(following); return nil })
	<-ctx.Done()
	e.cfg.Logger.Info("stopping")
	e.api.Stop()
	e.stopServer(ctx, e.cfg.ShutdownGrace)
	stop()
	if err := g.Wait(); err != nil {
		return err
	}
	e.cfg.Logger.Info("stopped")
	return nil
}

// watch lets requests in when there is a copy, and tells of each one that is new.
func (e *edge) watch(ctx context.Context) {
	ticker := time.NewTicker(edgeLook)
	defer ticker.Stop()
	for {
		changed := e.copies.follower.Changed()
		e.show()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

func (e *edge) show() {
	st := e.copies.follower.Status()
	at, _, _ := e.copies.newest()
	if at == (queue.Seq{}) {
		e.api.NotReady(notYet(&st))
		return
	}
	e.api.Identify(client.Node{Node: e.node.cfg.Node, Role: client.RoleEdge, Epoch: at.Epoch, URL: e.node.cfg.Advertise})
	if e.opened {
		e.api.feed.copied(at, st.TXID)
		return
	}
	e.opened = true
	e.api.Replicate(edgeReplica{e.copies})
	e.api.Open(newEdgeStore(e.copies, nil))
	e.api.Follow(e.copies.follower.Status) // after Open, which is for primaries
	e.api.feed.copied(at, st.TXID)
	e.cfg.Logger.Info("ready", "url", e.url, "seq", at.String(), "replica", st.URL)
	if e.cfg.needsTokens() && !e.api.gate.known.Load().any {
		e.cfg.Logger.Warn("the database has no access token yet, and without one nothing is served beyond loopback; make one with holdfast token create")
	}
	if e.cfg.OnReady != nil {
		e.cfg.OnReady(e.url)
	}
}

// notYet says why there is no copy.
func notYet(st *replicate.FollowStatus) string {
	switch {
	case st.Problem != "":
		return "waiting for the first copy: " + st.Problem
	case st.Seeding.Total > 0:
		return fmt.Sprintf("making the first copy: %s of %s", megabytes(st.Seeding.Bytes), megabytes(st.Seeding.Total))
	}
	return "waiting for the first copy"
}

// copied tells of a state that an edge serves. What changed is not known: its
// readers read again.
func (f *feed) copied(at queue.Seq, txid uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := client.Position{Epoch: at.Epoch, Seq: at.N, TXID: txidText(txid), ReplicatedSeq: &at.N}
	if f.at.Epoch == to.Epoch && f.at.Seq == to.Seq && f.at.TXID == to.TXID {
		return
	}
	f.at = to
	f.wake()
}

// edgeServes reports whether an edge answers a request itself.
func edgeServes(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	// Tokens are made and revoked at the primary, and listed where they are; the
	// audit trail goes with them.
	return r.URL.Path != "/v1/tokens" && r.URL.Path != "/v1/audit"
}
