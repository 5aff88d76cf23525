package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Floor is the yardstick of benchmarks: it takes jobs through their life by the
// writer's own statements in a bare loop, from one goroutine, batch of them to a
// transaction for each of enqueue, claim and ack, counters and idempotency keys
// included. There are no callers, no checks and no answers, so it says what
// SQLite alone would do. The file at path must be new. It returns the time from
// the first enqueue to the last ack.
func Floor(ctx context.Context, path string, jobs, batch int, payload json.RawMessage) (took time.Duration, err error) {
	q, err := Open(ctx, path, Options{DiskWatermark: -1})
	if err != nil {
		return 0, err
	}
	out, _, err := q.Enqueue(ctx, Spec{Queue: "floor"}) // makes the names
	if err == nil {
		_, err = q.Delete(ctx, out[0].ID)
	}
	if err != nil {
		return 0, errors.Join(err, q.Close())
	}
	// In the writer's turn, so that nothing else uses its statements.
	err = q.do(ctx, &op{admin: func(r *round) error {
		f := &floor{w: r.w, st: r.w.st, payload: string(payload), now: time.Now().UnixMilli(), next: out[0].ID + 1}
		start := time.Now()
		for done := 0; done < jobs && ctx.Err() == nil; done += batch {
			if err := f.life(batch); err != nil {
				return err
			}
		}
		took = time.Since(start)
		return ctx.Err()
	}})
	return took, errors.Join(err, q.Close())
}

type floor struct {
	w       *writer
	st      *statements
	payload string
	now     int64
	next    int64 // id
	ids     []any
}

// life takes n jobs through enqueue, claim and ack.
func (f *floor) life(n int) error {
	for _, step := range []struct {
		do   func(n int) error
		from State
		to   State
	}{{f.enqueue, 0, StateQueued}, {f.claim, StateQueued, StateRunning}, {f.ack, StateRunning, StateDone}} {
		if _, err := f.st.begin.Exec(); err != nil {
			return err
		}
		if err := step.do(n); err != nil {
			return err
		}
		var c [StateCancelled + 1]int
		c[step.from] -= n
		c[step.to] += n
		if _, err := f.st.addCounts.Exec(c[StateBlocked], c[StateScheduled], c[StateQueued], c[StateRunning], c[StateDone], c[StateDead],
			c[StateCancelled], f.now/60_000, f.next, f.next, 0, 0, 1); err != nil {
			return err
		}
		if _, err := f.st.closeRound.Exec(f.next, f.next, f.now); err != nil {
			return err
		}
		if _, err := f.st.commit.Exec(); err != nil {
			return err
		}
	}
	return nil
}

func (f *floor) enqueue(n int) error {
	var keys, jobs []any
	for range n {
		keys = append(keys, 1, fmt.Appendf(nil, "bench:%016d", f.next), f.next, []byte("0123456789abcdef"))
		jobs = append(jobs, f.next, StateQueued, 1, 0, f.now, none, flagHasKey, 1, f.now, nil, nil, f.payload)
		f.next++
	}
	if _, err := f.st.insertKeys.exec(nil, keys, []any{f.now}); err != nil {
		return err
	}
	_, err := f.st.insertJobs.exec(nil, jobs, nil)
	return err
}

func (f *floor) claim(n int) error {
	f.ids = f.ids[:0]
	var marks []any
	err := scanFirst(n, f.st.claimable, []any{1}, func(rows *sql.Rows) error {
		var c candidate
		err := c.scan(rows)
		f.ids = append(f.ids, c.job.ID)
		marks = append(marks, c.job.ID, 65537, f.now+30_000)
		return err
	})
	if err != nil {
		return err
	}
	_, err = f.st.claim.exec(nil, marks, []any{f.now})
	return err
}

func (f *floor) ack(n int) error {
	acked := 0
	err := f.st.ack.query([]any{f.now}, f.ids, []any{1}, func(rows *sql.Rows) error {
		var id, queue, started int64
		acked++
		return rows.Scan(&id, &queue, &started)
	})
	if err == nil && acked != n {
		err = fmt.Errorf("%d of %d jobs were acknowledged", acked, n)
	}
	return err
}
