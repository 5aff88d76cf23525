package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// run is a claimed job: held until its turn comes, then in the hands of its
// handler.
type run struct {
	job      Claimed
	ctx      context.Context         // of the handler
	end      context.CancelCauseFunc // of ctx
	claimed  time.Time
	started  time.Time // zero: it is held
	leaseEnd time.Time // by this machine's clock
	lost     bool      // the node said so: there is nothing left to report
	progress []byte    // to be sent with the next heartbeat; nil: none
}

// take keeps a job until its handler can run.
func (s *shift) take(job Claimed, now time.Time) {
	ctx, end := context.WithCancelCause(s.base)
	r := &run{job: job, ctx: ctx, end: end, claimed: now, leaseEnd: now.Add(s.opts.Lease)}
	if len(s.running) == 0 {
		s.beat.next = now.Add(s.beatEvery())
	}
	s.running[job.Lease] = r
	s.held = append(s.held, r)
}

// startHeld runs the handlers of as many jobs as there is room for.
func (s *shift) startHeld(now time.Time) {
	for len(s.held) > 0 && len(s.running)-len(s.held) < s.opts.Concurrency {
		r := s.held[0]
		s.held = s.held[1:]
		s.start(r, now)
	}
}

// start runs the handler of a job.
func (s *shift) start(r *run, now time.Time) {
	r.started = now
	job := r.job
	h := s.handler(job.Type)
	job.progress = func(text json.RawMessage) { s.tell(func() { s.progressed(r, text) }) }
	s.call(func() func() {
		timed, stop := withTimeout(r.ctx, job.TimeoutMS, now.Sub(r.claimed))
		result, err := handle(timed, h, job)
		cause := context.Cause(timed)
		stop()
		r.end(nil)
		return func() { s.ended(r, outcome{job: job, result: result, err: err}, cause) }
	})
}

// withdraw ends a run that is not wanted any more. A job that is held has no
// handler that could say how it ended; if it is still ours it is given back.
func (s *shift) withdraw(r *run, cause error) {
	r.end(cause)
	if !r.started.IsZero() {
		return
	}
	i := slices.Index(s.held, r)
	if i < 0 {
		return
	}
	s.held = slices.Delete(s.held, i, i+1)
	delete(s.running, r.job.Lease)
	if !r.lost {
		s.giveBack(r.job)
	}
}

// giveBack releases a job that was not started.
func (s *shift) giveBack(job Claimed) {
	s.pending = append(s.pending, outcome{kind: releaseRun, job: job, giveUp: time.Now().Add(s.opts.Lease)})
}

// withTimeout bounds a run a little more tightly than the node does, so that
// the failure that is kept is the handler's own and not just "timeout". Like the
// node it counts from the claim: the job may have been held for a while.
func withTimeout(ctx context.Context, timeoutMS int64, held time.Duration) (context.Context, context.CancelFunc) {
	if timeoutMS <= 0 {
		return context.WithCancel(ctx)
	}
	timeout := time.Duration(timeoutMS) * time.Millisecond
	return context.WithTimeoutCause(ctx, timeout-min(timeout/20, 500*time.Millisecond)-held, &timeoutError{timeout})
}

// ended decides what becomes of a job whose handler returned.
func (s *shift) ended(r *run, o outcome, cause error) {
	delete(s.running, r.job.Lease)
	now := time.Now()
	s.lastEnd = now
	log := s.log.With("job", r.job.ID, "queue", r.job.Queue, "type", r.job.Type, "run", r.job.Run,
		"attempt", r.job.Attempt, "ms", now.Sub(r.started).Milliseconds())
	if r.lost {
		log.Warn("job finished", "outcome", "dropped: the lease was lost", "err", o.err)
		return
	}
	o.kind = outcomeOf(o.err, cause)
	switch o.kind {
	case ackRun:
		log.Info("job finished", "outcome", "done")
	case releaseRun:
		log.Info("job finished", "outcome", "given back", "cause", cause)
	case snoozeRun:
		log.Info("job finished", "outcome", "put off", "for", (time.Duration(o.snooze().DelayMS) * time.Millisecond).String())
	case failRun:
		o.err = timedOut(o.err, cause)
		log.Warn("job finished", "outcome", "failed", "err", o.err)
	}
	o.bytes = o.size()
	// A node that was down gives every lease another 30 s when it is back, so an
	// ack may still be taken after the lease ended by the clock here.
	o.giveUp = r.leaseEnd.Add(s.opts.Lease)
	s.pending = append(s.pending, o)
}

// timedOut adds to a handler's error that the run took too long, if it did and
// the error does not say so.
func timedOut(err, cause error) error {
	switch {
	case !errors.Is(cause, ErrTimeout), errors.Is(err, ErrTimeout):
		return err
	case errors.Unwrap(err) == nil && err.Error() == context.DeadlineExceeded.Error(): // it says nothing more
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// outcomeOf tells how a run ended. A handler that finished its work is
// believed, also when its context ended before; one that broke off because it
// was told to is not blamed.
func outcomeOf(err, cause error) outcomeKind {
	if err == nil {
		return ackRun
	}
	if _, ok := errors.AsType[*snoozeError](err); ok {
		return snoozeRun
	}
	if _, ok := errors.AsType[*fatalError](err); ok {
		return failRun
	}
	if errors.Is(cause, ErrStopped) || errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrLeaseLost) {
		return releaseRun
	}
	return failRun
}
