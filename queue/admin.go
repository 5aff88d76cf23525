package queue

import (
	"context"
	"encoding/json"
)

// Retry makes a dead job claimable again with all its attempts, with payload
// in the place of its own unless payload is empty. Its runs so far stay on
// record, and it may be archived.
//
// Errors: ErrNotFound, ErrWrongState when it is not dead, *SpecError,
// *TooLargeError, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Retry(ctx context.Context, id int64, payload json.RawMessage) (Job, Seq, error) {
	if err := validJSON("payload", payload, MaxPayload); err != nil {
		return Job{}, Seq{}, err
	}
	return q.change(ctx, id, func(r *round) error { return r.retry(id, string(payload)) })
}

// Cancel cancels a job: at once unless it runs; the worker of a running one is
// told at its next extend, and the job is cancelled when its run ends, at the
// end of its lease at the latest, unless it was acknowledged first. Cancelling
// twice is no error.
//
// Errors: ErrNotFound, ErrWrongState when it is done or dead,
// ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Cancel(ctx context.Context, id int64) (Job, Seq, error) {
	return q.change(ctx, id, func(r *round) error { return r.cancel(id) })
}

// change runs one change by hand and returns the job after it.
func (q *Queue) change(ctx context.Context, id int64, admin func(*round) error) (Job, Seq, error) {
	o := &op{admin: admin}
	if err := q.do(ctx, o); err != nil {
		return Job{}, Seq{}, err
	}
	j, err := q.Job(ctx, id)
	return j, Seq{q.w.epoch, o.seq}, err
}

func (r *round) retry(id int64, payload string) error {
	h, err := r.held(id)
	if err != nil {
		return err
	}
	if h.state != StateDead {
		return ErrWrongState
	}
	flags := h.flags &^ (flagArchived | flagCancel)
	var inline any
	if payload != "" {
		flags &^= flagPayloadAside
		if _, err := r.w.st.dropPayload.Exec(id); err != nil {
			return err
		}
		inline = payload
		if len(payload) > inlinePayload {
			flags |= flagPayloadAside
			inline = nil
			if _, err := r.w.st.putPayload.Exec(id, payload); err != nil {
				return err
			}
		}
	}
	if _, err := r.w.st.retry.Exec(r.now.wall, flags, payload != "", inline, id); err != nil {
		return err
	}
	from := StateDead
	if h.flags&flagArchived != 0 { // left the count when it was archived
		from = 0
	}
	r.move(h.queue, from, StateQueued, 1)
	return nil
}

func (r *round) cancel(id int64) error {
	h, err := r.held(id)
	if err != nil {
		return err
	}
	switch h.state {
	case StateCancelled:
		return nil
	case StateDone, StateDead:
		return ErrWrongState
	case StateRunning:
		if h.flags&flagCancel != 0 {
			return nil
		}
		r.dirty = true
		_, err := r.w.st.flag.Exec(h.flags|flagCancel, id)
		return err
	}
	return r.settle(h, StateCancelled, "")
}
