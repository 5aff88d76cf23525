package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Wait returns a job when it has come to an end (done, dead or cancelled), or
// as it is after d, which is up to MaxWait. A job that is deleted meanwhile is
// ErrNotFound.
//
// Errors: *SpecError, ErrNotFound, ErrClosed, ctx.Err().
func (q *Queue) Wait(ctx context.Context, id int64, d time.Duration) (Job, error) {
	if d < 0 || d > MaxWait {
		return Job{}, &SpecError{"wait_ms", fmt.Sprintf("must be from 0 to %d", MaxWait.Milliseconds())}
	}
	if d == 0 {
		return q.Job(ctx, id)
	}
	ended := make(chan struct{})
	defer q.send(&op{done: make(chan struct{}), admin: func(r *round) error { //nolint:errcheck // after Close nobody is told
		r.done = append(r.done, func() { r.w.unwatch(id, ended) })
		return nil
	}})
	if err := q.do(ctx, &op{admin: func(r *round) error { return r.watch(id, ended) }}); err != nil {
		return Job{}, err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	case <-q.draining:
	case <-ctx.Done():
	}
	return q.Job(ctx, id)
}

// watch sees to it that ended is closed when the job has come to an end.
func (r *round) watch(id int64, ended chan struct{}) error {
	h, err := r.held(id)
	if err != nil {
		return err
	}
	r.done = append(r.done, func() {
		if h.state.Final() {
			close(ended)
		} else {
			r.w.watched[id] = append(r.w.watched[id], ended)
		}
	})
	return nil
}

func (w *writer) unwatch(id int64, ended chan struct{}) {
	left := slices.DeleteFunc(w.watched[id], func(c chan struct{}) bool { return c == ended })
	if w.watched[id] = left; len(left) == 0 {
		delete(w.watched, id)
	}
}
