package replicate

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// unavailable reports whether err says that the root cannot be reached now,
// rather than that something is wrong.
func unavailable(err error) bool {
	var r *RemoteError
	return errors.As(err, &r) && (r.Kind == RemoteUnreachable || r.Kind == RemoteTimeout || r.Kind == RemoteThrottled || r.Kind == RemoteServer)
}

// offline begins without the root. That is right only where nobody can have
// needed this node's place: its epoch was ready and served in this very
// directory, on a machine that has not restarted since. Elsewhere, and in auto
// mode, where nobody may act without the lease, it returns nil.
func (b *boot) offline(ctx context.Context, cause error) *Primary {
	here, err := b.files.read(ctx)
	if err != nil || b.auto() || !here.hasDB || !here.hasNode || !here.node.Served || !here.same || here.state.Lineage != here.node.Lineage {
		return nil
	}
	b.log.Warn("the root cannot be reached; serving from the local file until it can", "epoch", here.node.Epoch, "err", cause)
	// Until the root can be read this is what lock.json should say.
	lock := Lock{Lineage: here.node.Lineage, Epoch: here.node.Epoch}
	if n := len(here.node.Sessions); n > 0 {
		lock.Session = here.node.Sessions[n-1]
	}
	b.taken(lock)
	p := b.primary(held{Lock: lock}, pathResume, here.node)
	p.status.Offline, p.status.PendingSince = true, time.Now()
	p.status.LastError, p.status.LastErrorAt = cause.Error(), time.Now()
	return p
}

// reconnect takes the root as soon as it can be reached, by the rules of a
// boot. If it went to another node meanwhile, this one has lost it.
func (p *Primary) reconnect(ctx context.Context) {
	wait := firstRetry
	for sleep(ctx, wait) {
		wait = min(2*wait, lastRetry)
		err := p.resume(ctx)
		switch {
		case err == nil:
			p.boot.log.Info("the root can be reached again", "epoch", p.Epoch())
			p.group.Go(func() error { p.stream.run(ctx); return nil })
			p.group.Go(func() error { p.stream.maintain(ctx); return nil })
			p.stream.wake()
			return
		case ctx.Err() != nil:
			return
		case !unavailable(err) && !errors.Is(err, errCondition):
			p.lose(fmt.Errorf("%w: %w", ErrFenced, err))
			return
		}
	}
}

// resume is the boot of a node that serves already: nothing but the same epoch
// will do.
func (p *Primary) resume(ctx context.Context) error {
	b := p.boot
	here, err := b.files.read(ctx)
	if err != nil {
		return err
	}
	lock, err := readLock(ctx, b.store)
	if err != nil {
		return err
	}
	if lock.Epoch != here.node.Epoch || lock.Ready != lock.Epoch || !here.node.mine(lock.Session) || lock.Lineage != here.state.Lineage {
		return fmt.Errorf("%s is in epoch %d, held by node %q", b.store.url(), lock.Epoch, lock.Node)
	}
	next := lock.Lock
	next.Session, next.Node, next.URL, next.Closed, next.Schema = newID(), b.opts.Node, b.opts.URL, false, b.opts.Schema
	if err := b.files.addSession(&here.node, next.Session); err != nil {
		return err
	}
	now, err := swap(ctx, b.store, lock, next)
	if err != nil {
		return err
	}
	c, err := b.files.compare(ctx, b.store, lock.Ready, here.state)
	if err != nil {
		return err
	}
	if c.relation != relationAhead {
		return fmt.Errorf("the local file does not go on from the replica: %s", c.what)
	}
	b.taken(now.Lock)
	p.mu.Lock()
	p.lock, p.node, p.status.Offline, p.status.LastError, p.begun = now, here.node, false, "", true
	p.mu.Unlock()
	return p.stream.open()
}
