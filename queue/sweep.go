package queue

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	sweepEvery = time.Hour
	sweepRows  = 2000 // keys that one step looks at
)

// sweepKeys deletes, once in a while, the idempotency keys that are free
// again. A key is free by the state of its job, so nothing depends on when.
func (q *Queue) sweepKeys(ctx context.Context) {
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
		if err := q.sweepOnce(ctx); err != nil && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
			q.w.log.Warn("sweep of idempotency keys", "err", err)
		}
		swept = q.Seq().N
	}
}

type storedKey struct {
	queue, job int64
	key        []byte
}

// sweepOnce walks all keys in steps, finding the free ones on a reader and
// deleting them in the writer's turn.
func (q *Queue) sweepOnce(ctx context.Context) error {
	at := storedKey{key: []byte{}}
	for {
		var free []storedKey
		end := false
		err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			free, at, end, err = freeKeys(ctx, tx, at, q.w.clock.read().wall-KeyLife.Milliseconds())
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
	n := 0
	for ; rows.Next(); n++ {
		var k storedKey
		var holds bool
		if err := rows.Scan(&k.queue, &k.key, &k.job, &holds); err != nil {
			return nil, at, false, err
		}
		if at = k; !holds {
			free = append(free, k)
		}
	}
	return free, at, n < sweepRows, rows.Err()
}

// deleteKeys deletes keys unless they name another job by now.
func (r *round) deleteKeys(keys []storedKey) error {
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
