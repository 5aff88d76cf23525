package queue

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"
)

const (
	sweepEvery = time.Hour
	sweepRows  = 2000 // keys, or jobs, that one step looks at
	freeAtOnce = 500  // entries that one step deletes
)

// sweep deletes, once in a while, what nothing refers to any more: idempotency
// keys that are free again, and workers. Nothing depends on when.
func (q *Queue) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	swept := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		seq := q.Seq().N
		if seq == swept { // an idle queue has nothing new to sweep
			continue
		}
		for _, sweep := range []func(context.Context) error{q.sweepKeys, q.sweepWorkers, q.sweepAudit} {
			if err := sweep(ctx); err != nil && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
				q.w.log.Warn("sweep", "err", err)
			}
		}
		swept = q.Seq().N
	}
}

type storedKey struct {
	queue, job int64
	key        []byte
}

// sweepKeys walks all keys in steps, finding the free ones on a reader and
// deleting them in the writer's turn.
func (q *Queue) sweepKeys(ctx context.Context) error {
	at := storedKey{key: []byte{}}
	for {
		var free []storedKey
		end := false
		err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			free, at, end, err = freeKeys(ctx, tx, at, q.w.clock.wall().Add(-KeyLife).UnixMilli())
			return err
		})
		if err != nil {
			return err
		}
		if len(free) > 0 {
			if err := q.do(ctx, &op{admin: func(r *round) error { return r.deleteKeys(free) }}); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

// freeKeys looks at the keys after at and returns those that are free, the
// last one it looked at, and whether it was the last of all.
func freeKeys(ctx context.Context, tx *sql.Tx, at storedKey, doneBefore int64) (free []storedKey, last storedKey, end bool, err error) {
	rows, err := tx.QueryContext(ctx, `select queue, key, job, `+keyHolds+` from keys where (queue, key) > (?, ?) order by queue, key limit ?`,
		doneBefore, at.queue, at.key, sweepRows)
	if err != nil {
		return nil, at, false, err
	}
	defer rows.Close()
	for n := 0; ; n++ {
		if n == sweepRows || len(free) == freeAtOnce {
			return free, at, false, nil
		}
		if !rows.Next() {
			return free, at, true, rows.Err()
		}
		var k storedKey
		var holds bool
		if err := rows.Scan(&k.queue, &k.key, &k.job, &holds); err != nil {
			return nil, at, false, err
		}
		if at = k; !holds {
			free = append(free, k)
		}
	}
}

// deleteKeys deletes keys unless they name another job by now, or the clock
// by which they are free is in doubt.
func (r *round) deleteKeys(keys []storedKey) error {
	if r.next.paused > r.now.mono {
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := r.w.st.deleteKey.Exec(k.queue, k.key, k.job); err != nil {
			return err
		}
	}
	r.dirty = true
	return nil
}

const workersKept = 10_000 // without a sweep

// sweepWorkers deletes the workers of which no job and no run tells any more.
// To find them takes a walk over all jobs, so it waits until they are many.
func (q *Queue) sweepWorkers(ctx context.Context) error {
	var before int64
	forgotten := 0
	err := q.do(ctx, &op{admin: func(r *round) error {
		before, forgotten = r.now.wall-maxDrift, r.w.names.workers.forgotten
		return nil
	}})
	if err != nil {
		return err
	}
	idle, err := q.idleWorkers(ctx, before)
	if err != nil {
		return err
	}
	for step := range slices.Chunk(idle, freeAtOnce) {
		if err := q.do(ctx, &op{admin: func(r *round) error { return r.deleteWorkers(step, before, forgotten) }}); err != nil {
			return err
		}
	}
	return nil
}

// idleWorkers returns the workers last seen before a time to which no row
// refers, if there are many workers.
func (q *Queue) idleWorkers(ctx context.Context, before int64) ([]int64, error) {
	idle := map[int64]bool{}
	collect := func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		idle[id] = true
		return err
	}
	if err := q.eachRow(ctx, collect, "select id from workers where id > 65536 and seen_at < ? and (select count(*) from workers) > ?",
		before, workersKept); err != nil {
		return nil, err
	}
	for _, walk := range []string{
		"select id, worker from jobs where id > ? order by id limit ?",
		"select job, worker from job_runs where job > ? order by job limit ?",
	} {
		for at, n := int64(0), sweepRows; n == sweepRows && len(idle) > 0; {
			n = 0
			if err := q.eachRow(ctx, func(rows *sql.Rows) error {
				var worker int64
				n++
				err := rows.Scan(&at, &worker)
				delete(idle, worker)
				return err
			}, walk, at, sweepRows); err != nil {
				return nil, err
			}
			at-- // the last one's runs may not have been all: a job keeps fewer than a step has
		}
	}
	return slices.Collect(maps.Keys(idle)), nil
}

// eachRow calls f for each row of a read.
func (q *Queue) eachRow(ctx context.Context, f func(*sql.Rows) error, query string, args ...any) error {
	return q.view(ctx, func(ctx context.Context, tx *sql.Tx) error { return eachOf(ctx, tx, f, query, args...) })
}

// deleteWorkers deletes workers that did not come back since the walk began:
// one that did is in memory, unless the memory was emptied meanwhile, or its
// seen_at is later.
func (r *round) deleteWorkers(ids []int64, before int64, forgotten int) error {
	d := r.w.names.workers
	if d.forgotten != forgotten {
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	for _, id := range ids {
		if _, here := d.names[id]; here {
			continue
		}
		if _, err := r.w.st.deleteWorker.Exec(id, before); err != nil {
			return err
		}
	}
	r.dirty = true
	return nil
}
