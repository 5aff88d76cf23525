package queue

import (
	"context"
	"database/sql"
	"encoding/json"
)

// Retry makes a dead job claimable again with all its attempts, with payload
// in the place of its own unless payload is empty. Its runs so far stay on
// record, and it may be archived. It no longer expires.
//
// Errors: ErrNotFound, ErrWrongState when it is not dead, *SpecError,
// *TooLargeError, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Retry(ctx context.Context, id int64, payload json.RawMessage) (Job, Seq, error) {
	if err := validJSON("payload", payload, MaxPayload); err != nil {
		return Job{}, Seq{}, err
	}
	return q.change(ctx, id, func(r *round) error {
		h, err := r.deadJob(id)
		if err == nil && len(payload) > 0 {
			err = r.setPayload(h, string(payload))
		}
		if err == nil {
			_, err = r.retryDead([]int64{id})
		}
		return err
	})
}

// Archive takes a dead job out of the counts and lists of dead jobs. It can
// still be retried. Its idempotency key is free. Archiving twice is no error.
//
// Errors: ErrNotFound, ErrWrongState when it is not dead, ErrUnknownOutcome,
// ErrClosed, ctx.Err().
func (q *Queue) Archive(ctx context.Context, id int64) (Job, Seq, error) {
	return q.change(ctx, id, func(r *round) error {
		if _, err := r.deadJob(id); err != nil {
			return err
		}
		_, err := r.archiveDead([]int64{id})
		return err
	})
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

// Delete removes a job and all that belongs to it, unless it runs. Its
// idempotency key is free.
//
// Errors: ErrNotFound, ErrWrongState when it runs, ErrUnknownOutcome,
// ErrClosed, ctx.Err().
func (q *Queue) Delete(ctx context.Context, id int64) (Seq, error) {
	o := &op{admin: func(r *round) error {
		h, err := r.held(id)
		if err != nil {
			return err
		}
		if h.state == StateRunning {
			return ErrWrongState
		}
		r.move(h.queue, h.counted(), 0, 1)
		r.noted(h.queue, id, h.state, 0)
		r.ended(id)
		return r.erase([]any{id})
	}}
	if err := q.do(ctx, o); err != nil {
		return Seq{}, err
	}
	return q.seq(o), nil
}

// Bulk is a step of RetryDead or ArchiveDead.
type Bulk struct {
	Count int    // of the jobs that were changed, or would be
	Next  string // Filter.After of the next step; empty at the end. A step may change few jobs, even none, before the end.
}

// RetryDead retries the dead jobs that a filter selects, the latest first, as
// Retry does: at most f.Limit in a call, so that the caller sets the pace. A
// dry run changes nothing and counts, without regard to f.Limit but no more
// rows than a page of a list looks at.
//
// Errors: *SpecError, ErrNoQueue, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) RetryDead(ctx context.Context, f Filter, dryRun bool) (Bulk, Seq, error) {
	return q.bulk(ctx, f, dryRun, (*round).retryDead)
}

// ArchiveDead archives the dead jobs that a filter selects, as RetryDead
// retries them.
func (q *Queue) ArchiveDead(ctx context.Context, f Filter, dryRun bool) (Bulk, Seq, error) {
	f.Archived = false
	return q.bulk(ctx, f, dryRun, (*round).archiveDead)
}

func (q *Queue) bulk(ctx context.Context, f Filter, dryRun bool, change func(*round, []int64) (int, error)) (Bulk, Seq, error) {
	f.State = StateDead
	l, err := f.listing()
	if err != nil {
		return Bulk{}, Seq{}, err
	}
	if dryRun {
		l.limit = scanned
	}
	seq := q.Seq()
	ids, next, err := q.ids(ctx, l)
	out := Bulk{Count: len(ids), Next: next}
	if err != nil || dryRun || len(ids) == 0 {
		return out, seq, err
	}
	o := &op{}
	o.admin = func(r *round) (err error) {
		out.Count, err = change(r, ids)
		o.count = int64(out.Count)
		return err
	}
	if err := q.do(ctx, o); err != nil {
		return Bulk{}, Seq{}, err
	}
	return out, q.seq(o), nil
}

// change runs one change by hand and returns the job after it.
func (q *Queue) change(ctx context.Context, id int64, admin func(*round) error) (Job, Seq, error) {
	o := &op{admin: admin}
	if err := q.do(ctx, o); err != nil {
		return Job{}, Seq{}, err
	}
	j, err := q.Job(ctx, id)
	return j, q.seq(o), err
}

func (r *round) deadJob(id int64) (*heldJob, error) {
	h, err := r.held(id)
	if err == nil && h.state != StateDead {
		err = ErrWrongState
	}
	return h, err
}

// counted is the state that the job is counted under; an archived one left the
// count.
func (h *heldJob) counted() State {
	if h.state == StateDead && h.flags&flagArchived != 0 {
		return 0
	}
	return h.state
}

func (r *round) setPayload(h *heldJob, payload string) error {
	if _, err := r.w.st.dropPayload.Exec(h.id); err != nil {
		return err
	}
	h.flags &^= flagPayloadAside
	inline := any(payload)
	if len(payload) > inlinePayload {
		h.flags |= flagPayloadAside
		inline = nil
		if _, err := r.w.st.putPayload.Exec(h.id, payload); err != nil {
			return err
		}
	}
	_, err := r.w.st.setPayload.Exec(h.flags, inline, h.id)
	return err
}

// retryDead makes those of the jobs claimable that are dead.
func (r *round) retryDead(ids []int64) (int, error) {
	dead, err := r.dead(ids, func(q *queueState, id int64, archived bool) {
		from := StateDead
		if archived {
			from = 0
		}
		r.move(q, from, StateQueued, 1)
		r.noted(q, id, StateDead, StateQueued)
	})
	if err == nil {
		_, err = r.w.st.retry.exec([]any{r.now.wall}, dead, nil)
	}
	return len(dead), err
}

// archiveDead archives those of the jobs that are dead; it does not matter
// when one was archived before.
func (r *round) archiveDead(ids []int64) (int, error) {
	dead, err := r.dead(ids, func(q *queueState, _ int64, archived bool) {
		if !archived {
			r.move(q, StateDead, 0, 1)
		}
	})
	if err == nil {
		r.dirty = r.dirty || len(dead) > 0
		_, err = r.w.st.archive.exec([]any{r.now.wall}, dead, nil)
	}
	return len(dead), err
}

// dead returns those of the jobs that are dead, each told to f.
func (r *round) dead(wanted []int64, f func(q *queueState, id int64, archived bool)) (dead []any, err error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	err = r.w.st.dead.query(nil, ids(wanted), nil, func(rows *sql.Rows) error {
		var id, qid, flags int64
		if err := rows.Scan(&id, &qid, &flags); err != nil {
			return err
		}
		dead = append(dead, id)
		f(r.w.names.byID[qid], id, flags&flagArchived != 0)
		return nil
	})
	return dead, err
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
	return r.settle(h, StateCancelled, reason{})
}
