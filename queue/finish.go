package queue

import (
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
	finishExtend
)

// finish is one ack, fail, release or extend on its way through the writer.
type finish struct {
	kind  finishKind
	lease lease
	valid bool // the token is one of ours

	data    []byte // result or progress
	message string
	retryIn time.Duration // negative: by the job's back-off
	fatal   bool
	extend  time.Duration // 0: the queue's setting

	res *Result
	out Result // becomes *res when the caller takes the answer
}

func (f *finish) lost() { f.out = Result{ID: f.lease.id, Err: ErrLeaseLost} }

// results hands the outcome of each item to the caller's slices.
func (o *op) results() {
	for i := range o.finish {
		*o.finish[i].res = o.finish[i].out
	}
}

// Ack finishes runs. A lost lease fails its own item alone, with ErrLeaseLost.
//
// Errors: *SpecError, *TooLargeError, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Ack(ctx context.Context, acks []Ack) ([]Result, Seq, error) {
	if err := validAcks("acks", acks); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	return q.finishAll(ctx, o, q.ackItems(o, acks))
}

// Fail reports runs that ended badly: the job is scheduled for another attempt
// or, out of attempts, dead. A lost lease fails its own item alone. Errors are
// those of Ack.
func (q *Queue) Fail(ctx context.Context, fails []Fail) ([]Result, Seq, error) {
	if err := validFails("fails", fails); err != nil {
		return nil, Seq{}, err
	}
	o := &op{}
	return q.finishAll(ctx, o, q.failItems(o, fails))
}

// Release gives jobs back without costing them an attempt; they are claimable
// at once. A lost lease fails its own item alone. Errors are those of Ack.
func (q *Queue) Release(ctx context.Context, leases []string) ([]Result, Seq, error) {
	if err := validBatch("releases", len(leases)); err != nil {
		return nil, Seq{}, err
	}
	o, res := &op{}, make([]Result, len(leases))
	for i, token := range leases {
		q.item(o, token, finish{kind: finishRelease, res: &res[i]})
	}
	return q.finishAll(ctx, o, res)
}

// Extend prolongs leases to now + For, at most to the end of the run's
// timeout, and stores progress. A lost lease fails its own item alone. Errors
// are those of Ack.
func (q *Queue) Extend(ctx context.Context, extends []Extend) ([]Result, Seq, error) {
	if err := validExtends("extends", extends); err != nil {
		return nil, Seq{}, err
	}
	o, res := &op{}, make([]Result, len(extends))
	for i, e := range extends {
		q.item(o, e.Lease, finish{kind: finishExtend, extend: e.For, data: e.Progress, res: &res[i]})
	}
	return q.finishAll(ctx, o, res)
}

func (q *Queue) ackItems(o *op, acks []Ack) []Result {
	res := make([]Result, len(acks))
	for i, a := range acks {
		q.item(o, a.Lease, finish{kind: finishAck, data: a.Result, res: &res[i]})
	}
	return res
}

func (q *Queue) failItems(o *op, fails []Fail) []Result {
	res := make([]Result, len(fails))
	for i, f := range fails {
		q.item(o, f.Lease, finish{kind: finishFail, message: f.Error, retryIn: f.RetryIn, fatal: f.Fatal, res: &res[i]})
	}
	return res
}

func (q *Queue) item(o *op, token string, f finish) {
	f.lease, f.valid = q.signer.parse(token)
	o.finish = append(o.finish, f)
}

func (q *Queue) finishAll(ctx context.Context, o *op, res []Result) ([]Result, Seq, error) {
	if len(res) == 0 {
		return res, q.Seq(), nil
	}
	if err := q.do(ctx, o); err != nil {
		return nil, Seq{}, err
	}
	o.results()
	return res, Seq{q.w.epoch, o.seq}, nil
}

// finish executes the batch's acks, fails, releases and extends. Acks, by far
// the most, share statements.
func (r *round) finish() error {
	acks := map[int64][]*finish{} // by run: nearly always the first
	for _, o := range r.batch {
		for i := range o.finish {
			f := &o.finish[i]
			f.lost()
			if f.valid && f.kind == finishAck {
				acks[f.lease.run] = append(acks[f.lease.run], f)
			}
		}
	}
	for run, items := range acks {
		if err := r.ack(run, items); err != nil {
			return err
		}
	}
	for _, o := range r.batch {
		for i := range o.finish {
			f := &o.finish[i]
			if !f.valid || f.kind == finishAck {
				continue
			}
			if err := r.finishOne(f); err != nil {
				return err
			}
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
	slices.SortStableFunc(items, func(a, b *finish) int { return int(min(max(a.lease.id-b.lease.id, -1), 1)) })
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
		var id, qid int64
		if err := rows.Scan(&id, &qid); err != nil {
			return err
		}
		f, q := byID[id], r.w.names.byID[qid]
		if f == nil || q == nil {
			return fmt.Errorf("job %d of queue %d is not known", id, qid)
		}
		f.out = Result{ID: id, State: StateDone}
		if len(f.data) > 0 {
			results = append(results, id, string(f.data))
		}
		r.move(q, StateRunning, StateDone, 1)
		r.of(q).out++
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
	default:
		return r.extend(h, f)
	}
	f.out = Result{ID: h.id, State: h.state}
	if h.state == StateScheduled {
		f.out.RunAt = time.UnixMilli(h.runAt)
	}
	return err
}

// extend prolongs a lease. At the end of the timeout the lease is as good as
// lost, and the reaper ends the run.
func (r *round) extend(h *heldJob, f *finish) error {
	p, err := policyOf(h.spec, &h.queue.settings)
	if err != nil {
		return err
	}
	end := h.startedAt + p.TimeoutMS
	if end <= r.now.lease {
		return nil
	}
	d := f.extend
	if d == 0 {
		d = h.queue.settings.lease()
	}
	until := min(r.now.lease+d.Milliseconds(), end)
	res, err := r.w.st.extend.Exec(until, h.id, h.run)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("extend changed %d rows: %w", n, err)
	}
	if len(f.data) > 0 {
		if _, err := r.w.st.setProgress.Exec(h.id, string(f.data)); err != nil {
			return err
		}
	}
	r.dirty = true
	r.next.lease = min(r.next.lease, until)
	f.out = Result{ID: h.id, State: StateRunning, LeaseUntil: time.UnixMilli(until), Cancel: h.flags&flagCancel != 0}
	return nil
}
