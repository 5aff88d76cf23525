package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

type finishKind int

const (
	finishAck finishKind = iota
	finishFail
	finishRelease
	finishSnooze
	finishExtend
)

// finish is one ack, fail, release, snooze or extend on its way through the
// writer.
type finish struct {
	kind  finishKind
	lease lease
	valid bool // the token is one of ours

	data   []byte // result or progress
	why    reason
	delay  *time.Duration // of a fail (nil: by the job's back-off) or a snooze
	fatal  bool
	extend time.Duration // 0: the queue's setting

	out Result // set when the operation is done
}

// Ack finishes runs. A lost lease fails its own item alone, with ErrLeaseLost.
//
// Errors: *SpecError, *TooLargeError, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Ack(ctx context.Context, acks []Ack) ([]Result, Seq, error) {
	if err := validAcks("acks", acks); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	q.addAcks(o, acks)
	return q.finishAll(ctx, o)
}

// Fail reports runs that ended badly: the job is scheduled for another attempt
// or, out of attempts, dead. A lost lease fails its own item alone. Errors are
// those of Ack.
func (q *Queue) Fail(ctx context.Context, fails []Fail) ([]Result, Seq, error) {
	if err := validFails("fails", fails); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	q.addFails(o, fails)
	return q.finishAll(ctx, o)
}

// Release gives jobs back without costing them an attempt; they are claimable
// at once. It counts as an interruption. A lost lease fails its own item
// alone. Errors are those of Ack.
func (q *Queue) Release(ctx context.Context, leases []string) ([]Result, Seq, error) {
	if err := validBatch("releases", len(leases)); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	for _, token := range leases {
		q.add(o, token, finish{kind: finishRelease})
	}
	return q.finishAll(ctx, o)
}

// Snooze puts jobs off: each comes back after its delay, and its run costs no
// attempt and leaves no mark but the job's number of runs. A lost lease fails
// its own item alone. Errors are those of Ack.
func (q *Queue) Snooze(ctx context.Context, snoozes []Snooze) ([]Result, Seq, error) {
	if err := validSnoozes("snoozes", snoozes); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	for _, s := range snoozes {
		q.add(o, s.Lease, finish{kind: finishSnooze, delay: &s.Delay})
	}
	return q.finishAll(ctx, o)
}

// Extend prolongs leases to now + For, at most to the end of the run's
// timeout, and stores progress. A lost lease fails its own item alone. Errors
// are those of Ack.
func (q *Queue) Extend(ctx context.Context, extends []Extend) ([]Result, Seq, error) {
	if err := validExtends("extends", extends); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	for _, e := range extends {
		q.add(o, e.Lease, finish{kind: finishExtend, extend: e.For, data: e.Progress})
	}
	return q.finishAll(ctx, o)
}

func (q *Queue) addAcks(o *op, acks []Ack) {
	o.finish = slices.Grow(o.finish, len(acks))
	for _, a := range acks {
		q.add(o, a.Lease, finish{kind: finishAck, data: a.Result})
	}
}

func (q *Queue) addFails(o *op, fails []Fail) {
	o.finish = slices.Grow(o.finish, len(fails))
	for _, f := range fails {
		q.add(o, f.Lease, finish{kind: finishFail, why: because(cmp.Or(f.Error, "the worker gave no reason")), delay: f.RetryIn, fatal: f.Fatal})
	}
}

func (q *Queue) add(o *op, token string, f finish) {
	f.lease, f.valid = q.signer.parse(token)
	o.finish = append(o.finish, f)
}

func (q *Queue) finishAll(ctx context.Context, o *op) ([]Result, Seq, error) {
	if len(o.finish) == 0 {
		return nil, q.Seq(), nil
	}
	if err := q.do(ctx, o); err != nil {
		return nil, Seq{}, err
	}
	return o.results(), q.seq(o), nil
}

// results are what became of the items of an operation that is done.
func (o *op) results() []Result {
	out := make([]Result, len(o.finish))
	for i := range o.finish {
		out[i] = o.finish[i].out
	}
	return out
}

// finish executes the part's acks, fails, releases, snoozes and extends.
// Acks, by far the most, share statements.
func (r *round) finish(part []*op) error {
	acks := map[int64][]*finish{} // by run: nearly always the first
	var others []*finish
	for _, o := range part {
		for i := range o.finish {
			f := &o.finish[i]
			f.out = Result{ID: f.lease.id, Err: ErrLeaseLost} // unless it turns out otherwise
			switch {
			case !f.valid:
			case f.kind == finishAck:
				acks[f.lease.run] = append(acks[f.lease.run], f)
			default:
				others = append(others, f)
			}
		}
	}
	for run, items := range acks {
		if err := r.ack(run, items); err != nil {
			return err
		}
	}
	for _, f := range others {
		if err := r.finishOne(f); err != nil {
			return err
		}
	}
	return nil
}

// ack finishes all acks of one run number. The ids that come back were held
// under it; the others are lost, as is the second ack of a job in one batch.
func (r *round) ack(run int64, items []*finish) error {
	if err := r.begin(); err != nil {
		return err
	}
	slices.SortStableFunc(items, func(a, b *finish) int { return cmp.Compare(a.lease.id, b.lease.id) })
	byID := make(map[int64]*finish, len(items))
	args := make([]any, 0, len(items))
	for _, f := range items {
		if byID[f.lease.id] == nil {
			byID[f.lease.id] = f
			args = append(args, f.lease.id)
		}
	}
	var results []any
	err := r.w.st.ack.query([]any{r.now.wall}, args, []any{run}, func(rows *sql.Rows) error {
		var id, qid, started int64
		if err := rows.Scan(&id, &qid, &started); err != nil {
			return err
		}
		f, q := byID[id], r.w.names.byID[qid]
		if f == nil || q == nil {
			return fmt.Errorf("job %d of queue %d is not known", id, qid)
		}
		f.out = Result{ID: id, Queue: q.name, State: StateDone}
		if len(f.data) > 0 {
			results = append(results, id, string(f.data))
		}
		r.moved(q, id, StateRunning, StateDone)
		d := r.of(q)
		d.out++
		d.run.add(r.now.lease - started)
		r.ended(id)
		return nil
	})
	if err != nil || len(results) == 0 {
		return err
	}
	_, err = r.w.st.setResults.exec(nil, results, nil)
	return err
}

func (r *round) finishOne(f *finish) error {
	h, err := r.held(f.lease.id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil || h.state != StateRunning || h.run != f.lease.run {
		return err
	}
	switch f.kind {
	case finishFail:
		err = r.fail(h, f)
	case finishRelease:
		err = r.interrupt(h, "released by its worker")
	case finishSnooze:
		err = r.snooze(h, *f.delay)
	default:
		return r.extend(h, f)
	}
	f.out = Result{ID: h.id, Queue: h.queue.name, State: h.state}
	if h.state == StateScheduled {
		f.out.RunAt = time.UnixMilli(h.runAt)
	}
	return err
}

// extend prolongs a lease. At the end of the timeout the lease is as good as
// lost, and the reaper ends the run.
func (r *round) extend(h *heldJob, f *finish) error {
	end := h.timeoutAt()
	if end <= r.now.lease {
		return nil
	}
	until := min(r.now.lease+cmp.Or(f.extend, h.queue.settings.lease()).Milliseconds(), end)
	res, err := r.w.st.extend.Exec(until, h.id, h.run)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("extend of job %d changed %d rows", h.id, n)
	}
	if err == nil && len(f.data) > 0 {
		_, err = r.w.st.setProgress.Exec(h.id, string(f.data))
	}
	if err != nil {
		return err
	}
	r.dirty = true
	r.next.lease = min(r.next.lease, until)
	f.out = Result{ID: h.id, Queue: h.queue.name, State: StateRunning, LeaseUntil: time.UnixMilli(until), Cancel: h.flags&flagCancel != 0}
	return nil
}
