package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/queue"
)

// Supervisor is who started the process and wants to know how the node gets
// on, such as systemd, for which package node/systemd has one. It is called by
// one goroutine.
type Supervisor interface {
	// Starting says what the boot is doing. It comes again and again while that
	// lasts: what a boot waits for has deadlines of its own, or is worth it.
	Starting(reason string)
	// Serving says that requests are served or, by a standby, sent to the primary.
	Serving(status string)
	// Stopping says that the node stops, and how long that may take.
	Stopping(most time.Duration)
	// Alive says that the node makes progress.
	Alive()
	// Period is how often Alive must come; 0: never.
	Period() time.Duration
}

const (
	superviseEvery = 10 * time.Second // between two signs of a boot that lasts
	closeTime      = 10 * time.Second // for what a stop does besides its two graces
)

// beacon shows inside the process what /readyz shows outside.
type beacon struct {
	changed chan struct{} // holds a value when that is not what it was
	up      chan struct{} // closed when requests are served or sent elsewhere for the first time
	first   sync.Once
}

func newBeacon() *beacon {
	return &beacon{changed: make(chan struct{}, 1), up: make(chan struct{})}
}

// turn says that something has changed.
func (b *beacon) turn(up bool) {
	if up {
		b.first.Do(func() { close(b.up) })
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// supervise keeps cfg.Supervisor informed from the boot until ended is closed.
// ctx ends when the node is asked to stop.
func (n *node) supervise(ctx context.Context, ended <-chan struct{}) {
	s := n.cfg.Supervisor
	every := superviseEvery
	if period := s.Period(); period > 0 {
		every = min(every, period/3)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	stop := ctx.Done()
	for {
		select {
		case <-ended:
			return
		case <-stop:
			stop = nil
			s.Stopping(n.cfg.ShutdownGrace + n.cfg.UploadGrace + closeTime)
		case <-n.api.beacon.changed:
			n.tell(ctx, s)
		case <-ticker.C:
			n.tell(ctx, s)
			if s.Period() > 0 && n.alive(every) {
				s.Alive()
			}
		}
	}
}

// tell says where the node stands.
func (n *node) tell(ctx context.Context, s Supervisor) {
	reasons := n.api.reasons.Load()
	switch {
	case ctx.Err() != nil: // it was told
	case n.api.primary.Load() != nil && reasons != nil:
		s.Serving((*reasons)[0])
	case reasons == nil:
		s.Serving("serving " + n.url)
	default:
		s.Starting((*reasons)[0])
	}
}

// alive reports whether the node makes progress: its writer has come round
// within a time, or there is none. Without one the node boots, stands by or
// stops; each of their steps has a deadline.
func (n *node) alive(within time.Duration) bool {
	q := n.writer.Load()
	if q == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := (*q).Alive(ctx)
	if err != nil && !errors.Is(err, queue.ErrClosed) {
		n.cfg.Logger.Error("the writer does not come round", "for", within.String(), "err", err)
		return false
	}
	return true
}
