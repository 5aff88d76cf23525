package queue

import (
	"context"
	"fmt"
)

// boot reads where the file stands and brings it to the present, in one
// transaction, before the first round: another epoch, and leases that were
// made by another process, perhaps by another clock.
func (w *writer) boot(ctx context.Context) (err error) {
	var committedAt, fileEpoch, until int64
	if err := w.conn.QueryRowContext(ctx, "select seq, next_id, committed_at from counts where id=0").Scan(&w.seq, &w.nextID, &committedAt); err != nil {
		return err
	}
	if err := w.conn.QueryRowContext(ctx, "select v from meta where k='epoch'").Scan(&fileEpoch); err != nil {
		return err
	}
	if w.epoch = w.opts.Epoch; w.epoch == 0 {
		w.epoch = fileEpoch
	}
	if w.epoch < fileEpoch {
		return fmt.Errorf("epoch %d is before the file's own, %d", w.epoch, fileEpoch)
	}
	// A new epoch gives its ids a range of their own: an id that was lost with
	// the primary before is never given again.
	w.nextID = max(w.nextID, (w.epoch-1)<<36, 1)
	if err := w.conn.QueryRowContext(ctx, pausedUntil).Scan(&until); err != nil {
		return err
	}
	now := w.clock.read()
	if left := until - now.wall; left > 0 {
		w.due.paused = now.mono + min(left, stepPause)
		w.due.kept = w.due.paused
	}
	if gap := now.wall - committedAt; committedAt > 0 && (gap > stepPause || gap < -maxDrift) {
		w.due.paused = now.mono + stepPause // a long stop, or a clock that was set
	}
	if err := w.settleLeases(ctx, now, w.epoch != fileEpoch, max(committedAt-now.wall, 0)); err != nil {
		return err
	}
	w.done.Store(w.seq)
	return nil
}

// settleLeases takes over the runs that were under way when the file was
// closed. back is how far the clock is behind that of the last commit.
func (w *writer) settleLeases(ctx context.Context, now instant, newEpoch bool, back int64) (err error) {
	if _, err := w.conn.ExecContext(ctx, "begin immediate"); err != nil {
		return err
	}
	changed := int64(0)
	step := func(query string, args ...any) {
		if err != nil {
			return
		}
		res, e := w.conn.ExecContext(ctx, query, args...)
		if err = e; err == nil {
			n, _ := res.RowsAffected()
			changed += n
		}
	}
	if newEpoch {
		step("update meta set v=? where k='epoch'", w.epoch)
		step("update jobs set flags=flags|? where state=5", flagOldEpoch)
	}
	if back > 1000 {
		step("update jobs set at=at-?, started_at=started_at-? where state=5", back, back)
	}
	// No lease is longer than MaxLease, whatever clock made it.
	longest := now.lease + MaxLease.Milliseconds()
	step("update jobs set at=? where state=5 and at>?", longest, longest)
	// Workers that lived on shall be able to extend or finish what ended while
	// the node was down: once for each run, so that a node that restarts again
	// and again does not keep jobs from coming back.
	step("update jobs set at=?, flags=flags|? where state=5 and at<=? and flags&?=0",
		now.lease+bootGrace.Milliseconds(), flagGraced, now.lease, runFlags)
	if changed > 0 {
		step("update counts set seq=seq+1 where id=0")
	}
	end := "commit"
	if changed == 0 || err != nil {
		end = "rollback"
	}
	if _, e := w.conn.ExecContext(context.WithoutCancel(ctx), end); err == nil {
		err = e
	}
	if err == nil && changed > 0 {
		w.seq++
	}
	return err
}
