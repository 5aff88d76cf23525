package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// lease is the right to act as the primary in auto mode: it ends by itself
// unless lock.json is written again, so that a standby may take over when it has
// not changed for a while. Only the monotonic clock of one machine is ever
// compared with itself.
type lease struct {
	ttl time.Duration // 0: manual mode, the right does not end by itself

	mu    sync.Mutex
	until time.Time
	base  time.Time // of the last renewal, to notice a clock that jumped
}

const (
	renewals  = 4                      // in a TTL
	clockSlip = 500 * time.Millisecond // between wall and monotonic clock since the last renewal
)

// renewed notes that lock.json was written by a request that was sent at sent,
// and answered now.
func (l *lease) renewed(sent, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.base = sent.Add(l.ttl), now
}

// valid reports whether the right still stands. A clock that jumped since the
// last renewal, as when the machine slept, takes it away until the next.
func (l *lease) valid(now time.Time) bool {
	if l.ttl == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slip := now.Round(0).Sub(l.base.Round(0)) - now.Sub(l.base)
	return now.Before(l.until) && slip.Abs() < clockSlip
}

// Valid reports whether this node may act as the primary now: hand out a job,
// or give an answer. In manual mode that is so until Lost is closed.
func (p *Primary) Valid() bool { return p.check() == nil && p.lease.valid(p.boot.now()) }

// renew writes lock.json again and again until ctx ends or the root is lost.
func (p *Primary) renew(ctx context.Context) {
	if p.lease.ttl == 0 {
		return
	}
	for sleep(ctx, p.lease.ttl/renewals) && p.check() == nil {
		c, cancel := context.WithTimeout(ctx, p.lease.ttl/2)
		err := p.rewrite(c, func(*Lock) {})
		cancel()
		if err != nil && ctx.Err() == nil {
			p.boot.log.Warn("the lease was not renewed", "err", err)
		}
	}
}

// rewrite changes lock.json as its holder. Whoever else wrote it has the root:
// then Lost is closed.
func (p *Primary) rewrite(ctx context.Context, change func(*Lock)) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	old := p.lock
	p.mu.Unlock()
	for range 2 { // the second time on what an answer that was lost left behind
		next, sent := old.Lock, p.boot.now()
		change(&next)
		now, err := swap(ctx, p.boot.store, old, next)
		if err == nil {
			p.lease.renewed(sent, p.boot.now())
			p.mu.Lock()
			p.lock = now
			p.mu.Unlock()
			return nil
		}
		if !errors.Is(err, errCondition) {
			return err
		}
		if old, err = readLock(ctx, p.boot.store); err != nil {
			return err
		}
		if old.Session != next.Session || old.Closed && !next.Closed {
			err := fmt.Errorf("%w: %s is held by node %q in epoch %d", ErrFenced, p.boot.store.url(), old.Node, old.Epoch)
			p.lose(err)
			return err
		}
	}
	return fmt.Errorf("write lock.json: %w", errCondition)
}

// await is how a standby waits: until the holder gives the root up, or has not
// written lock.json for a TTL and a third of it as this machine counts. A lock
// that cannot be read proves nothing.
func (b *boot) await(ctx context.Context, lock held) (held, error) {
	ttl := b.opts.Config.LeaseTTL
	seen := b.now()
	b.standby(lock.Lock)
	stop := b.follow(ctx)
	defer stop()
	for lock.Session != "" && !lock.Closed && b.now().Sub(seen) < ttl+ttl/3 {
		if !sleep(ctx, b.glance(lock.Lock)) {
			return lock, ctx.Err()
		}
		now, err := readLock(ctx, b.store)
		if unavailable(err) {
			b.waiting(err)
			seen = b.now()
			continue
		}
		if err != nil {
			return lock, err
		}
		if now.version != lock.version {
			seen = b.now()
			if now.Session != lock.Session || now.URL != lock.URL || now.Ready != lock.Ready {
				b.standby(now.Lock)
			}
		}
		lock = now
	}
	return lock, nil
}

// glance is how long to wait before lock.json is read again: a part of the
// lease, and less while one node has gone and the next does not serve yet.
func (b *boot) glance(lock Lock) time.Duration {
	wait := b.opts.Config.LeaseTTL / renewals
	if lock.Closed || lock.Ready != lock.Epoch {
		return min(wait, 200*time.Millisecond)
	}
	return wait
}

// own reports whether lock.json has a session of this directory. One that handed
// the root over first gives others the time to take it.
func (b *boot) own(ctx context.Context, here local, lock held) (bool, held, error) {
	for {
		mine := here.hasDB && here.hasNode && here.node.Lineage == lock.Lineage && here.node.mine(lock.Session)
		if !mine || !lock.Closed || !b.now().Before(b.yield) {
			return mine, lock, nil
		}
		if !sleep(ctx, b.glance(lock.Lock)) {
			return false, lock, ctx.Err()
		}
		now, err := readLock(ctx, b.store)
		if err != nil {
			return false, lock, err
		}
		lock = now
	}
}

func (b *boot) standby(lock Lock) {
	b.log.Info("standby", "primary", lock.Node, "url", lock.URL, "epoch", lock.Epoch)
	if b.opts.Standby != nil {
		b.opts.Standby(lock)
	}
}

func (b *boot) auto() bool { return b.opts.Config.Failover == FailoverAuto }
