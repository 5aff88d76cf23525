package client

import (
	"context"
	"sync"
	"time"
)

// shift is one Run of a Worker. One goroutine, that of run, owns its fields:
// calls to the source and handlers run in goroutines of their own and hand back
// what to do with their answer as a func for the owner to call. So nothing here
// is locked, and no call to the source holds up another of a different kind.
type shift struct {
	*Worker
	calls  sync.WaitGroup     // every goroutine of the shift
	base   context.Context    // of handlers and calls: outlives the context of Run
	cancel context.CancelFunc // of base
	events chan func()
	over   chan struct{} // closed when nobody reads events any more

	running map[string]*run // by lease, those that are held too
	held    []*run          // claimed beyond the concurrency, in their order
	pending []outcome       // what the node has not been told yet

	claim  lane // asks for jobs
	settle lane // reports outcomes
	beat   lane // extends leases

	lastBeat time.Time // when the last one was sent

	claimWaits bool // the claim under way may wait long for its answer
	claimSince time.Time
	endClaim   context.CancelFunc

	stopping bool
	graceEnd time.Time // after it handlers are cancelled
	expelled bool      // they have been
	lastEnd  time.Time // when a handler last returned
	failure  error     // the node refuses this worker
}

// lane is a kind of call to the source, of which one is under way at a time.
type lane struct {
	busy  bool
	next  time.Time // not before; zero: at once
	fails int       // in a row
}

// failed notes a call that brought no answer and returns when to try again.
func (l *lane) failed(now time.Time) {
	l.fails++
	l.next = now.Add(retryDelay(l.fails))
}

func (l *lane) succeeded() { l.fails, l.next = 0, time.Time{} }

func (l *lane) ready(now time.Time) bool { return !l.busy && !now.Before(l.next) }

func newShift(w *Worker, ctx context.Context) *shift {
	s := &shift{
		Worker:  w,
		events:  make(chan func()),
		over:    make(chan struct{}),
		running: map[string]*run{},
	}
	s.base, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// run is the loop: do what can be done, wait for something to change.
func (s *shift) run(ctx context.Context) error {
	// When the loop ends no handler runs and nothing is left to report; what may
	// still be under way, such as a heartbeat, serves nobody and is cut short.
	defer s.calls.Wait()
	defer close(s.over)
	defer s.cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop, hurry := ctx.Done(), s.hurry
	for {
		now := time.Now()
		if s.failure != nil || ctx.Err() != nil {
			stop = nil
			s.stop(now, s.opts.Grace)
		}
		if hurry == nil {
			s.stop(now, 0)
		}
		s.step(now)
		if s.finished() {
			return s.failure
		}
		timer.Reset(s.untilNext(now))
		select {
		case f := <-s.events:
			f()
		case <-stop:
		case <-hurry:
			hurry = nil
		case <-timer.C:
		}
	}
}

// step starts every call that is due.
func (s *shift) step(now time.Time) {
	if s.stopping && !s.expelled && !now.Before(s.graceEnd) {
		s.expelled = true
		for _, r := range s.running {
			r.end(ErrStopped)
		}
	}
	if s.stopping && len(s.running) == 0 && s.lastCall(now) {
		s.cancel() // a call that hangs
	}
	s.giveUp(now)
	s.startHeld(now)
	s.startClaim(now)
	s.startSettle(now)
	s.startBeat(now)
}

// lastCall reports whether a shift that stops has no more time to report.
func (s *shift) lastCall(now time.Time) bool { return !now.Before(s.reportEnd()) }

// reportEnd is when a shift that stops gives up to report. A handler may take
// some time to heed its cancellation; its job is given back all the same.
func (s *shift) reportEnd() time.Time {
	end := s.graceEnd
	if s.lastEnd.After(end) {
		end = s.lastEnd
	}
	return end.Add(settleGrace)
}

func (s *shift) finished() bool {
	return s.stopping && !s.claim.busy && !s.settle.busy && len(s.running) == 0 && len(s.pending) == 0
}

// untilNext is how long nothing needs to be done unless an event comes.
func (s *shift) untilNext(now time.Time) time.Duration {
	d := time.Hour
	sooner := func(t time.Time) {
		if wait := t.Sub(now); wait > 0 {
			d = min(d, wait)
		}
	}
	sooner(s.claim.next)
	sooner(s.settle.next)
	sooner(s.beat.next)
	if s.stopping {
		sooner(s.graceEnd)
		sooner(s.reportEnd())
	}
	return d
}

// stop begins the end of the shift, or hastens it. A claim that waits is called
// back; a short one carries acks and is let through.
func (s *shift) stop(now time.Time, grace time.Duration) {
	end := now.Add(grace)
	if s.stopping {
		if end.Before(s.graceEnd) {
			s.graceEnd = end
			s.log.Info("stopping now", "running", len(s.running))
		}
		return
	}
	s.stopping = true
	s.graceEnd = end
	for len(s.held) > 0 {
		s.withdraw(s.held[0], ErrStopped)
	}
	if s.claim.busy && s.claimWaits {
		s.endClaim()
	}
	s.log.Info("stopping", "running", len(s.running), "grace", grace.String())
}

// call runs f in a goroutine of the shift; the owner then runs what f returns.
func (s *shift) call(f func() func()) {
	s.calls.Go(func() {
		s.tell(f())
	})
}

// tell makes the owner run f, unless the shift is over.
func (s *shift) tell(f func()) {
	select {
	case s.events <- f:
	case <-s.over:
	}
}
