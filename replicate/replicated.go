package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrUnreplicated is returned where durability=replicated cannot be given: with
// a folder as the replica, and with a bucket that has no working conditional
// writes.
var ErrUnreplicated = errors.New("this node cannot say that something is in object storage and stays there")

// waiters are those who wait for an upload. One joins the round that begins
// after its commit.
type waiters struct {
	mu   sync.Mutex
	next []chan error
}

func (w *waiters) join() <-chan error {
	c := make(chan error, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = append(w.next, c)
	return c
}

// take returns those whose round begins now.
func (w *waiters) take() []chan error {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.next
	w.next = nil
	return all
}

// count returns how many wait for the next round.
func (w *waiters) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.next)
}

func answer(all []chan error, err error) {
	for _, c := range all {
		c <- err
	}
}

// Replicated returns nil when all that was committed before the call is in
// object storage and this node held the root after it got there: no later
// primary can have started without it. No clock has a part in that, so not even
// a machine that was suspended in between gives a false answer.
//
// After any error but ErrUnreplicated it is unknown whether what was committed
// survives; it is not undone.
func (p *Primary) Replicated(ctx context.Context) error {
	p.mu.Lock()
	s := p.stream
	p.mu.Unlock()
	if !p.CanReplicate() || s == nil {
		return fmt.Errorf("%w: %s", ErrUnreplicated, p.boot.store.url())
	}
	if err := p.check(); err != nil {
		return err
	}
	done := s.waiters.join()
	s.wake()
	signal(s.hurry)
	select {
	case err := <-done:
		return err
	case <-p.lost:
		return p.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CanReplicate reports whether Replicated can succeed at all.
func (p *Primary) CanReplicate() bool {
	_, weak := p.boot.store.(unconditional)
	return !weak && p.boot.opts.Config.Replica.Type == TypeS3
}
