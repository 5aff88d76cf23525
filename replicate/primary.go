package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Primary is a node's hold on a root: from [Acquire], over [Primary.Start],
// to [Primary.Stop]. Its methods may be called from any goroutine.
type Primary struct {
	boot   *boot
	how    path
	parent epochInfo
	lease  lease

	writing sync.Mutex // held while lock.json is written

	mu     sync.Mutex
	lock   held     // as this node last wrote it
	node   nodeFile // as it last wrote it
	status Status
	stream *stream
	lost   chan struct{}
	cause  error // why lost was closed

	begun  bool // the epoch is ready, and its root may be closed
	group  errgroup.Group
	run    context.Context // of the goroutines in group
	cancel context.CancelFunc
}

// Status is how replication stands.
type Status struct {
	Epoch         int64
	Session       string
	URL           string    // of the root, without secrets
	Seq           int64     // of the database
	ReplicatedSeq int64     // all up to it is in the replica; 0: nothing yet
	TXID          uint64    // of the last file that was uploaded
	PendingSince  time.Time // of the oldest commit that is not uploaded; zero: none
	LastSyncAt    time.Time
	LastError     string // of the last round; empty when it was good
	LastErrorAt   time.Time
	Offline       bool // begun without the root, see DESIGN.md
	LastSnapshot  time.Time
	Requests      Requests
	RequestsSince time.Time // the first of them; zero: none was sent
}

// Lag is how long the oldest commit has been waiting for its upload.
func (s *Status) Lag(now time.Time) time.Duration {
	if s.PendingSince.IsZero() {
		return 0
	}
	return now.Sub(s.PendingSince)
}

// Epoch is the number of this node's reign.
func (p *Primary) Epoch() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.Epoch
}

// Lineage names the database that the root holds.
func (p *Primary) Lineage() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node.Lineage
}

// Lost is closed when another node has taken the root, or when it turned out
// that it is no longer sure that none has. Whatever answers come after it must
// not be given. Err says why.
func (p *Primary) Lost() <-chan struct{} { return p.lost }

// Err is why Lost was closed, or nil.
func (p *Primary) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

func (p *Primary) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause == nil {
		p.cause = err
		p.boot.log.Error("the root is lost", "err", err)
		close(p.lost)
	}
}

// check returns why this node must not write to its prefix any more.
func (p *Primary) check() error {
	select {
	case <-p.lost:
		return p.Err()
	default:
		return nil
	}
}

// Start uploads the base where the epoch needs one, declares the epoch ready,
// and streams from then on. The database must be open; seq returns its last
// commit. No request may be accepted before Start has returned.
func (p *Primary) Start(ctx context.Context, seq func() int64) error {
	run := p.run
	p.mu.Lock()
	p.stream = newStream(p, seq)
	offline := p.status.Offline
	p.mu.Unlock()
	if offline {
		p.group.Go(func() error { p.reconnect(run); return nil })
		return nil
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.group.Go(func() error { p.stream.run(run); return nil })
	p.group.Go(func() error { p.stream.maintain(run); return nil })
	return nil
}

// begin is the last part of a boot: base, epoch.json, ready.
func (p *Primary) begin(ctx context.Context) error {
	if err := p.stream.open(); err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	if err := errors.Join(fault("before-base"), p.stream.round(ctx), fault("after-base")); err != nil {
		return fmt.Errorf("upload the base: %w", err)
	}
	if p.how != pathResume {
		p.parent.ReadyAtMS = p.boot.now().UnixMilli()
		if err := errors.Join(writeEpoch(ctx, p.boot.store, p.parent), fault("after-epoch")); err != nil {
			return fmt.Errorf("write epoch.json: %w", err)
		}
		if err := errors.Join(p.declareReady(ctx), fault("after-ready")); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.node.Served, p.node.Adopt = true, true, false
	if err := p.boot.files.writeNode(p.node); err != nil {
		return err
	}
	return p.boot.files.forgetMeta(p.node.Epoch)
}

func (p *Primary) declareReady(ctx context.Context) error {
	if err := p.rewrite(ctx, func(l *Lock) { l.Ready, l.Seq, l.TXID = l.Epoch, p.replicatedSeq(), p.txid() }); err != nil {
		return fmt.Errorf("declare the epoch ready: %w", err)
	}
	return nil
}

func (p *Primary) replicatedSeq() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.ReplicatedSeq
}

func (p *Primary) txid() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.TXID
}

// Notify says that the database has a new commit. It never waits.
func (p *Primary) Notify() {
	p.mu.Lock()
	if p.status.PendingSince.IsZero() {
		p.status.PendingSince = time.Now()
	}
	s := p.stream
	p.mu.Unlock()
	if s != nil {
		s.wake()
	}
}

// Status returns how replication stands.
func (p *Primary) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Epoch, s.Session, s.URL = p.node.Epoch, p.lock.Session, p.boot.store.url()
	if p.stream != nil {
		s.Seq = p.stream.seq()
	}
	s.Requests, s.RequestsSince = p.boot.store.requests().snapshot(), p.boot.store.requests().begun()
	return s
}

// Stop uploads what is left, closes the root and gives it free. The database
// must be closed by then, but for ctx, which bounds the upload: when the root
// cannot be reached, what is missing there stays in the data directory, and
// the next boot uploads it.
func (p *Primary) Stop(ctx context.Context) error {
	p.letGo()
	var err error
	if p.stream != nil && p.stream.opened() {
		err = p.end(ctx)
	}
	return errors.Join(err, p.boot.store.close())
}

func (p *Primary) end(ctx context.Context) error {
	err := p.check()
	if err == nil && p.begun { // else there is no base, and the next boot makes another
		if err = errors.Join(p.stream.round(ctx), fault("before-close")); err == nil {
			err = errors.Join(p.closeRoot(ctx), fault("after-close"))
		}
	}
	return errors.Join(err, p.stream.close(ctx))
}

// closeRoot marks lock.json as given up at this position.
func (p *Primary) closeRoot(ctx context.Context) error {
	err := p.rewrite(ctx, func(l *Lock) { l.Closed, l.Seq, l.TXID = true, p.replicatedSeq(), p.txid() })
	if err != nil {
		return fmt.Errorf("close the root: %w", err)
	}
	return nil
}
