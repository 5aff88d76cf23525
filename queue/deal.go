package queue

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	fetchAtOnce = 256      // rows of a queue that are read ahead
	claimBytes  = 8 << 20  // payload bytes after which a claim gets no further job
	roundBytes  = 64 << 20 // likewise for a round
)

// ready are the claimable jobs of a queue that the round has read and not yet
// dealt, in their order.
type ready struct {
	rows []candidate
	end  bool // the queue has no others
}

type candidate struct {
	job     Claimed
	typeID  int64
	runAt   int64 // Unix ms
	created int64 // Unix ms
	expires sql.NullInt64
	flags   int64
	spec    []byte
	fails   int
	crashes int
}

// scan reads a row of the statement claimable.
func (c *candidate) scan(rows *sql.Rows) error {
	j := &c.job
	return rows.Scan(&j.ID, &j.Run, &c.typeID, &j.Priority, &c.runAt, &c.created, &c.fails, &c.crashes, &c.expires, &c.flags,
		&c.spec, (*[]byte)(&j.Payload))
}

// deal is the claiming part of a round: jobs are read in order, dealt out to
// the claims in order of arrival, and marked as running at the end.
type deal struct {
	r      *round
	ready  map[*queueState]*ready
	demand map[string]int64
	marks  []mark
	bytes  int
}

type mark struct{ id, worker, until int64 }

// claims serves the claims that wait and those of this batch.
func (r *round) claims() error {
	d := &deal{r: r, ready: map[*queueState]*ready{}, demand: map[string]int64{}}
	for _, c := range d.claimers() {
		if err := d.serve(c); err != nil {
			return err
		}
	}
	if d.bytes >= roundBytes {
		r.next.again = true
	}
	return d.flush()
}

// claimers returns the claims for which there may be a job, oldest first.
func (d *deal) claimers() []*claim {
	var out []*claim
	seen := map[*claim]bool{}
	w := d.r.w
	for name := range w.wait.queues {
		q := w.names.queues[name]
		if q == nil || q.settings.Paused {
			continue
		}
		if n := d.r.count(q, StateQueued); n > 0 {
			for _, c := range w.wait.first(name, n) {
				if !seen[c] {
					seen[c] = true
					out = append(out, c)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b *claim) int { return cmp.Compare(a.arrival, b.arrival) })
	for _, o := range d.r.batch {
		if o.claim != nil {
			out = append(out, o.claim)
		}
	}
	for _, c := range out {
		for _, name := range c.queues {
			d.demand[name] += int64(c.max)
		}
	}
	return out
}

// serve gives a claim what there is, up to its max.
func (d *deal) serve(c *claim) error {
	c.jobs, c.bytes = nil, 0
	if !c.waiting() {
		return nil
	}
	var worker int64
	for _, name := range c.queues {
		q := d.r.w.names.queues[name]
		if q == nil || q.settings.Paused {
			continue
		}
		for len(c.jobs) < c.max && c.bytes < claimBytes && d.bytes < roundBytes {
			row, err := d.next(q)
			if err != nil {
				return err
			}
			if row == nil {
				break
			}
			if worker == 0 {
				if worker, err = d.r.workerID(c.worker); err != nil {
					return err
				}
			}
			if err := d.give(c, q, row, worker); err != nil {
				return err
			}
		}
	}
	if len(c.jobs) > 0 {
		d.r.dealt = append(d.r.dealt, c)
	}
	return nil
}

// next returns the first claimable job of a queue that is not dealt yet, or nil.
func (d *deal) next(q *queueState) (*candidate, error) {
	b := d.ready[q]
	if b == nil {
		b = &ready{}
		d.ready[q] = b
	}
	for {
		if len(b.rows) == 0 && !b.end {
			if err := d.fetch(q, b); err != nil {
				return nil, err
			}
		}
		if len(b.rows) == 0 {
			return nil, nil
		}
		row := &b.rows[0]
		b.rows = b.rows[1:]
		if !row.expires.Valid || row.expires.Int64 > d.r.now.wall {
			return row, nil
		}
		if err := d.bury(row.job.ID, expiredReason); err != nil {
			return nil, err
		}
	}
}

// bury ends a job that came up for a claim but cannot be handed out.
func (d *deal) bury(id int64, why string) error {
	h, err := d.r.held(id)
	if err != nil {
		return err
	}
	return d.r.settle(h, StateDead, because(why))
}

// fetch reads a queue's next claimable jobs. Those dealt before are marked
// first, so that they are not read again.
func (d *deal) fetch(q *queueState, b *ready) error {
	if d.r.count(q, StateQueued) <= 0 {
		b.end = true
		return nil
	}
	if err := d.r.begin(); err != nil {
		return err
	}
	if err := d.flush(); err != nil {
		return err
	}
	limit := int(min(max(d.demand[q.name], 1), fetchAtOnce))
	b.rows = make([]candidate, 0, min(limit, int(d.r.count(q, StateQueued))))
	err := scanFirst(limit, d.r.w.st.claimable, []any{q.id}, func(rows *sql.Rows) error {
		b.rows = append(b.rows, candidate{})
		return b.rows[len(b.rows)-1].scan(rows)
	})
	b.end = len(b.rows) < limit
	return err
}

// give makes row the next job of c.
func (d *deal) give(c *claim, q *queueState, row *candidate, worker int64) error {
	r, j := d.r, row.job
	var err error
	if j.Type, err = r.typeName(row.typeID); err != nil {
		return err
	}
	if row.flags&flagPayloadAside != 0 {
		err := r.w.st.payload.QueryRow(j.ID).Scan((*[]byte)(&j.Payload))
		if errors.Is(err, sql.ErrNoRows) { // must not hold up the others
			return d.bury(j.ID, "its payload is missing")
		}
		if err != nil {
			return fmt.Errorf("payload of job %d: %w", j.ID, err)
		}
	}
	j.Queue, j.RunAt, j.CreatedAt = q.name, time.UnixMilli(row.runAt), time.UnixMilli(row.created)
	p := policyOf(row.spec, &q.settings)
	lease := cmp.Or(c.lease, q.settings.lease())
	until := r.now.lease + min(lease, p.Timeout).Milliseconds()
	j.Run++
	j.Attempt, j.MaxAttempts = row.fails+row.crashes+1, p.MaxAttempts
	j.Timeout, j.Tags, j.LeaseUntil = p.Timeout, p.Tags, time.UnixMilli(until)
	j.Traceparent = p.Traceparent
	c.jobs = append(c.jobs, j)
	c.bytes += len(j.Payload)
	d.bytes += len(j.Payload)
	d.marks = append(d.marks, mark{j.ID, worker, until})
	r.moved(q, j.ID, StateQueued, StateRunning)
	r.of(q).wait.add(r.now.wall - row.runAt)
	r.next.lease = min(r.next.lease, until)
	return nil
}

// flush marks what was dealt as running.
func (d *deal) flush() error {
	if len(d.marks) == 0 {
		return nil
	}
	args := make([]any, 0, 3*len(d.marks))
	for _, m := range d.marks {
		args = append(args, m.id, m.worker, m.until)
	}
	n, err := d.r.w.st.claim.exec(nil, args, []any{d.r.now.lease})
	if err == nil && n != int64(len(d.marks)) {
		err = fmt.Errorf("%d jobs were dealt and %d marked", len(d.marks), n)
	}
	d.marks = d.marks[:0]
	return err
}
