package queue

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"
)

const (
	inlinePayload = 256 // bytes; larger ones have a table of their own, so that a job's row stays short
	wholeKey      = 64  // bytes; longer idempotency keys are stored as their hash
)

// row is a spec on its way into the file.
type row struct {
	queue, typ string
	priority   int
	runAt      int64 // Unix ms; 0: now + delay
	delay      int64 // ms
	expires    any   // Unix ms or nil
	spec       any   // JSON or nil
	payload    string
	key        []byte // nil: none
	body       []byte // hash of what the key stands for

	id, queueID, typeID int64
	owner               int64 // the job that the key names; id unless it is a duplicate
	out                 Enqueued
}

// Enqueue adds jobs, all or none, in one commit.
//
// Errors: *SpecError, whose field is "jobs[0].priority" also for a single
// spec, *TooLargeError, ErrIdempotencyConflict, ErrQueueFull, ErrDiskFull,
// ErrUnknownOutcome, ErrClosed, ctx.Err() (then the outcome is unknown too).
func (q *Queue) Enqueue(ctx context.Context, specs ...Spec) ([]Enqueued, Seq, error) {
	o, err := newEnqueue(specs, q.w.clock.wall())
	if err != nil {
		return nil, Seq{}, err
	}
	if len(specs) == 0 {
		return nil, q.Seq(), nil
	}
	if err := q.do(ctx, o); err != nil {
		return nil, Seq{}, err
	}
	return o.enqueued(), q.seq(o), nil
}

// newEnqueue checks specs and puts them into the form of the file.
func newEnqueue(specs []Spec, now time.Time) (*op, error) {
	if err := validBatch("jobs", len(specs)); err != nil {
		return nil, err
	}
	o := &op{rows: make([]*row, len(specs))}
	for i := range specs {
		r, err := newRow(&specs[i], now)
		if err != nil {
			return nil, inBatch(err, "jobs", i)
		}
		o.rows[i] = r
	}
	return o, nil
}

// enqueued is the answer of an operation that is done.
func (o *op) enqueued() []Enqueued {
	out := make([]Enqueued, len(o.rows))
	for i, r := range o.rows {
		out[i] = r.out
	}
	return out
}

// newRow checks a spec and puts it into the form of the file.
func newRow(s *Spec, now time.Time) (*row, error) {
	if err := s.validate(now); err != nil {
		return nil, err
	}
	r := &row{
		queue: s.Queue, typ: cmp.Or(s.Type, DefaultType), priority: s.Priority,
		runAt: toMS(s.RunAt), delay: s.Delay.Milliseconds(), payload: "null",
	}
	if len(s.Payload) > 0 {
		r.payload = string(s.Payload)
	}
	if !s.ExpiresAt.IsZero() {
		r.expires = s.ExpiresAt.UnixMilli()
	}
	own := spec{MaxAttempts: s.MaxAttempts, TimeoutMS: s.Timeout.Milliseconds(), Backoff: storedBackoff(s.Backoff), Tags: s.Tags}
	var err error
	if r.spec, err = own.text(); err != nil {
		return nil, err
	}
	if s.IdempotencyKey != "" {
		r.key = []byte(s.IdempotencyKey)
		if len(r.key) > wholeKey {
			sum := sha256.Sum256(r.key)
			r.key = sum[:]
		}
		err = r.hashBody(s)
	}
	// After the hash: what is sent again may be so in another trace.
	if s.Traceparent != "" && err == nil {
		own.Traceparent = s.Traceparent
		r.spec, err = own.text()
	}
	return r, err
}

// hashBody takes the hash of all that makes the job what it is; the key itself
// and the delay are not part of it.
func (r *row) hashBody(s *Spec) error {
	var payload bytes.Buffer
	if err := json.Compact(&payload, []byte(r.payload)); err != nil {
		return &SpecError{"payload", "is not JSON: " + err.Error()}
	}
	text, err := json.Marshal([]any{r.queue, r.typ, payload.String(), r.priority, r.runAt, r.spec, r.expires})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	r.body = sum[:16]
	return nil
}

// bytes is about what the jobs of o take in the file.
func (o *op) bytes() (n int) {
	for _, j := range o.rows {
		n += len(j.payload) + 300
	}
	return n
}

// enqueue inserts the part's jobs. Most go in together; what may be found
// wrong when half of it is done goes in by itself.
func (r *round) enqueue(part []*op) error {
	var together, alone []*op
	full := false
	for _, o := range part {
		if len(o.rows) == 0 {
			continue
		}
		o.err = nil
		if full = full || r.w.disk.full(r.now.wall); full {
			o.err = ErrDiskFull
			continue
		}
		r.w.disk.writing(o.bytes())
		if r.fragile(o) {
			alone = append(alone, o)
		} else {
			together = append(together, o)
		}
	}
	if err := r.insert(together); err != nil {
		return err
	}
	for _, o := range alone {
		if err := r.insertAlone(o); err != nil {
			return err
		}
	}
	return nil
}

// fragile reports whether an operation may be refused after its first change:
// one that takes several steps and may meet a conflict of keys or a full
// queue.
func (r *round) fragile(o *op) bool {
	keyed, limited := false, false
	for _, j := range o.rows {
		keyed = keyed || j.key != nil
		q := r.w.names.queues[j.queue]
		limited = limited || q != nil && q.settings.MaxDepth > 0
	}
	several := len(o.rows) > 1
	return keyed && (several || limited) || several && limited
}

// insertAlone inserts the jobs of one operation, or leaves no trace of it.
func (r *round) insertAlone(o *op) error {
	return r.attempt(func() (bool, error) {
		err := r.insert([]*op{o})
		return o.err == nil, err
	})
}

// insert settles the keys of ops by the constraint on them, then inserts the
// jobs that are new. An operation that is refused gets its error and no job.
func (r *round) insert(ops []*op) error {
	var rows []*row
	for _, o := range ops {
		rows = append(rows, o.rows...)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.name(rows); err != nil {
		return err
	}
	for _, j := range rows {
		j.id, j.owner = r.nextID, r.nextID
		r.nextID++
	}
	if err := r.settleKeys(rows); err != nil {
		return err
	}
	var fresh []*row
	coming := map[*queueState]int64{} // to queues with a limit
	for _, o := range ops {
		mine, err := r.fresh(o, coming)
		if err != nil {
			o.err = err
			continue
		}
		fresh = append(fresh, mine...)
	}
	if err := r.insertJobs(fresh); err != nil {
		return err
	}
	return r.duplicates(ops)
}

// fresh returns the rows of an operation that are new jobs, or why it is
// refused.
func (r *round) fresh(o *op, coming map[*queueState]int64) (mine []*row, refused error) {
	for _, j := range o.rows {
		switch j.owner {
		case 0:
			return nil, ErrIdempotencyConflict
		case j.id:
			mine = append(mine, j)
		}
	}
	for i, j := range mine {
		q := r.w.names.byID[j.queueID]
		if q.settings.MaxDepth == 0 {
			continue
		}
		coming[q]++
		if r.count(q, StateBlocked)+r.count(q, StateScheduled)+r.count(q, StateQueued)+coming[q] <= q.settings.MaxDepth {
			continue
		}
		for _, j := range mine[:i+1] { // none of them will come
			coming[r.w.names.byID[j.queueID]]--
		}
		return nil, ErrQueueFull
	}
	return mine, nil
}

// name gives rows the numbers of their queues and types.
func (r *round) name(rows []*row) error {
	for _, j := range rows {
		q, err := r.queue(j.queue)
		if err != nil {
			return err
		}
		j.queueID = q.id
		if j.typeID, err = r.typeID(j.typ); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) insertJobs(rows []*row) error {
	jobs := make([]any, 0, 12*len(rows))
	var aside []any
	for _, j := range rows {
		state, at, flags, payload := StateQueued, none, 0, any(j.payload)
		runAt := j.runAt
		if runAt == 0 {
			runAt = r.now.wall + j.delay
		}
		if runAt > r.now.wall {
			state, at = StateScheduled, runAt
			r.next.scheduled = min(r.next.scheduled, runAt)
		}
		if len(j.payload) > inlinePayload {
			flags |= flagPayloadAside
			payload = nil
			aside = append(aside, j.id, j.payload)
		}
		if j.key != nil {
			flags |= flagHasKey
		}
		if expires, ok := j.expires.(int64); ok {
			r.next.expiry = min(r.next.expiry, expires)
		}
		jobs = append(jobs, j.id, state, j.queueID, j.priority, runAt, at, flags, j.typeID, r.now.wall, j.expires, j.spec, payload)
		j.out = Enqueued{ID: j.id, State: state, RunAt: time.UnixMilli(runAt), CreatedAt: time.UnixMilli(r.now.wall)}
		q := r.w.names.byID[j.queueID]
		r.moved(q, j.id, 0, state)
		r.of(q).in++
	}
	if _, err := r.w.st.insertJobs.exec(nil, jobs, nil); err != nil {
		return err
	}
	_, err := r.w.st.insertPayloads.exec(nil, aside, nil)
	return err
}

// duplicates answers the rows whose keys named a job that was there before.
func (r *round) duplicates(ops []*op) error {
	for _, o := range ops {
		if o.err != nil {
			continue
		}
		for _, j := range o.rows {
			if j.owner == j.id {
				continue
			}
			var runAt, created int64
			j.out = Enqueued{ID: j.owner, Duplicate: true}
			if err := r.w.st.jobBrief.QueryRow(j.owner).Scan(&j.out.State, &runAt, &created); err != nil {
				return err
			}
			j.out.RunAt, j.out.CreatedAt = time.UnixMilli(runAt), time.UnixMilli(created)
		}
	}
	return nil
}

type keyID struct {
	queue int64
	key   string
}

// settleKeys offers every row's key with the row's id to the table of keys.
// Afterwards owner is the id of the job that the key stands for: the row's own
// if it is new, another's if that one was made from the same body, and 0 if it
// was made from another.
func (r *round) settleKeys(rows []*row) error {
	var args []any
	offered := map[keyID]bool{}
	keyed := 0
	for _, j := range rows {
		if j.key == nil {
			continue
		}
		keyed++
		if k := (keyID{j.queueID, string(j.key)}); !offered[k] { // a second one of this round must not take the place of the first
			offered[k] = true
			args = append(args, j.queueID, j.key, j.id, j.body)
		}
	}
	if keyed == 0 {
		return nil
	}
	r.dirty = true
	doneBefore := r.now.wall - KeyLife.Milliseconds()
	if r.next.paused > r.now.mono { // the clock is in doubt: no key is free for its age
		doneBefore = 0
	}
	taken, err := r.w.st.insertKeys.exec(nil, args, []any{doneBefore})
	if err != nil || taken == int64(keyed) {
		return err
	}
	for _, j := range rows {
		if j.key == nil {
			continue
		}
		var body []byte
		if err := r.w.st.keyOwner.QueryRow(j.queueID, j.key).Scan(&j.owner, &body); err != nil {
			return err
		}
		if !bytes.Equal(body, j.body) {
			j.owner = 0
		}
	}
	return nil
}
