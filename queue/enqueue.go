package queue

import (
	"bytes"
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
// Errors: *SpecError, *TooLargeError, ErrIdempotencyConflict, ErrDiskFull,
// ErrUnknownOutcome, ErrClosed, ctx.Err() (then the outcome is unknown too).
// The field of a SpecError is "priority" for a single spec and
// "jobs[3].priority" in a batch.
func (q *Queue) Enqueue(ctx context.Context, specs ...Spec) ([]Enqueued, Seq, error) {
	if err := validBatch("jobs", len(specs)); err != nil {
		return nil, Seq{}, err
	}
	if len(specs) == 0 {
		return nil, q.Seq(), nil
	}
	o := &op{enqueue: make([]*row, len(specs))}
	for i := range specs {
		r, err := newRow(&specs[i])
		if err != nil {
			return nil, Seq{}, inBatch(err, "jobs", i, len(specs))
		}
		o.enqueue[i] = r
	}
	if err := q.do(ctx, o); err != nil {
		return nil, Seq{}, err
	}
	out := make([]Enqueued, len(specs))
	for i, r := range o.enqueue {
		out[i] = r.out
	}
	return out, Seq{q.w.epoch, o.seq}, nil
}

// newRow checks a spec and puts it into the form of the file.
func newRow(s *Spec) (*row, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	r := &row{queue: s.Queue, typ: s.Type, priority: s.Priority, runAt: toMS(s.RunAt), delay: s.Delay.Milliseconds(), payload: "null"}
	if r.typ == "" {
		r.typ = "default"
	}
	if len(s.Payload) > 0 {
		r.payload = string(s.Payload)
	}
	if !s.ExpiresAt.IsZero() {
		r.expires = s.ExpiresAt.UnixMilli()
	}
	p := policy{MaxAttempts: s.MaxAttempts, TimeoutMS: s.Timeout.Milliseconds(), Backoff: s.Backoff, Tags: s.Tags}
	if !p.empty() {
		text, err := json.Marshal(&p)
		if err != nil {
			return nil, err
		}
		r.spec = string(text)
	}
	if s.IdempotencyKey != "" {
		r.key = []byte(s.IdempotencyKey)
		if len(r.key) > wholeKey {
			sum := sha256.Sum256(r.key)
			r.key = sum[:]
		}
		return r, r.hashBody(s)
	}
	return r, nil
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

// enqueue inserts the batch's jobs. What has no key, or is alone in its
// request, goes in together; an array with keys is all or nothing and goes in
// by itself.
func (r *round) enqueue() error {
	var together []*op
	var arrays []*op
	full := false
	for _, o := range r.batch {
		if len(o.enqueue) == 0 {
			continue
		}
		o.err = nil
		if full = full || r.w.disk.full(r.now.wall); full {
			o.err = ErrDiskFull
			continue
		}
		if len(o.enqueue) > 1 && o.keyed() {
			arrays = append(arrays, o)
		} else {
			together = append(together, o)
		}
	}
	if err := r.insert(together); err != nil {
		return err
	}
	for _, o := range arrays {
		if err := r.insertArray(o); err != nil {
			return err
		}
	}
	return nil
}

func (o *op) keyed() bool {
	for _, j := range o.enqueue {
		if j.key != nil {
			return true
		}
	}
	return false
}

// insertArray undoes what it did when one of the array's keys is in conflict.
func (r *round) insertArray(o *op) error {
	if err := r.name(o.enqueue); err != nil { // outside of the savepoint: names stay
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	if _, err := r.w.st.savepoint.Exec(); err != nil {
		return err
	}
	if err := r.insert([]*op{o}); err != nil {
		return err
	}
	if o.err != nil {
		if _, err := r.w.st.rollbackTo.Exec(); err != nil {
			return err
		}
	}
	_, err := r.w.st.releaseTo.Exec()
	return err
}

// insert settles the keys of ops by the constraint on them, then inserts the
// jobs that are new. An operation with a conflict gets its error and no job.
func (r *round) insert(ops []*op) error {
	var rows []*row
	for _, o := range ops {
		rows = append(rows, o.enqueue...)
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
	for _, o := range ops {
		for _, j := range o.enqueue {
			if j.owner == 0 {
				o.err = ErrIdempotencyConflict
			}
		}
		if o.err != nil {
			continue
		}
		for _, j := range o.enqueue {
			if j.owner == j.id {
				fresh = append(fresh, j)
			}
		}
	}
	if err := r.insertJobs(fresh); err != nil {
		return err
	}
	return r.duplicates(ops)
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
		r.move(q, 0, state, 1)
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
		for _, j := range o.enqueue {
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
	taken, err := r.w.st.insertKeys.exec(nil, args, []any{r.now.wall - KeyLife.Milliseconds()})
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
