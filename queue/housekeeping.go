package queue

import (
	"database/sql"
	"math"
	"time"
)

// agenda is when the writer has to do something by itself: nothing is polled,
// and nothing is written while there is nothing to do. Times are milliseconds
// of the clock that is named; never is the end of time.
type agenda struct {
	scheduled int64 // wall: the next job falls due
	expiry    int64 // wall: the next job expires unclaimed
	lease     int64 // lease: the next lease ends, or ended but for an extend or ack
	retention int64 // mono: look for old jobs
	paused    int64 // mono: until then nothing is deleted or buried for its age, as the wall clock is in doubt
	kept      int64 // mono: the paused that the file has
	retained  int   // how many queues the present look for old jobs is through with
	again     bool  // there is more to do at once
}

const (
	never        = math.MaxInt64
	stepRows     = 500                  // of one housekeeping step, at most
	stepTime     = 6 * time.Millisecond // after which a step leaves the rest to the next round
	reapEvery    = 200                  // ms between two looks at the leases
	retainEvery  = 60_000               // ms between two looks for old jobs
	retryAfter   = 1_000                // ms after a step that failed
	stepPause    = 3600_000             // ms for which a step of the wall clock puts deletion off
	longestSleep = time.Minute          // notices a stepped wall clock
	bootGrace    = 30 * time.Second     // for leases that ended while the node was down
)

// waits is in how many ms each kind of housekeeping is due.
func (a *agenda) waits(now instant) (lease, scheduled, expiry, retention int64) {
	return a.lease - now.lease, a.scheduled - now.wall, max(a.expiry-now.wall, a.paused-now.mono), max(a.retention, a.paused) - now.mono
}

// sleep is how long the writer may wait.
func (a *agenda) sleep(now instant) time.Duration {
	if a.again {
		return 0
	}
	lease, scheduled, expiry, retention := a.waits(now)
	return millis(max(0, min(lease, scheduled, expiry, retention, longestSleep.Milliseconds())))
}

// postpone puts off what is due after a step that failed.
func (a *agenda) postpone(now instant) {
	a.again = false
	a.scheduled = max(a.scheduled, now.wall+retryAfter)
	a.expiry = max(a.expiry, now.wall+retryAfter)
	a.retention = max(a.retention, now.mono+retryAfter)
	a.lease = max(a.lease, now.lease+retryAfter)
}

// housekeep does what is due, each kind by one bounded step.
func (r *round) housekeep() error {
	r.next.again = false
	lease, scheduled, expiry, retention := r.next.waits(r.now)
	for _, s := range []struct {
		wait int64
		step func() error
	}{{lease, r.reap}, {scheduled, r.promote}, {expiry, r.expireStale}, {retention, r.retain}} {
		if s.wait > 0 {
			continue
		}
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

// upcoming reads the time of the next row, or never.
func upcoming(stmt *sql.Stmt) (int64, error) {
	var at sql.NullInt64
	if err := stmt.QueryRow().Scan(&at); err != nil || !at.Valid {
		return never, err
	}
	return at.Int64, nil
}

// each does something with jobs for as long as a step may take. What is left
// is found again by the next.
func (r *round) each(jobs []*heldJob, do func(*heldJob) error) error {
	start := time.Now()
	for i, h := range jobs {
		if i > 0 && time.Since(start) > stepTime {
			r.next.again = true
			return nil
		}
		if err := do(h); err != nil {
			return err
		}
	}
	if len(jobs) == stepRows {
		r.next.again = true
	}
	return nil
}

// reap ends the runs whose leases ended.
func (r *round) reap() error {
	jobs, err := r.heldAll(r.w.st.expired, r.now.lease, stepRows)
	if err != nil {
		return err
	}
	if err := r.each(jobs, r.lapse); err != nil {
		return err
	}
	next, err := upcoming(r.w.st.nextLease)
	r.next.lease = max(next, r.now.lease+reapEvery)
	if r.next.again {
		r.next.lease = r.now.lease
	}
	return err
}

// promote makes scheduled jobs claimable whose time has come.
func (r *round) promote() error {
	var due []any
	var of []*queueState
	err := scanAll(r.w.st.dueJobs, []any{r.now.wall, stepRows}, func(rows *sql.Rows) error {
		var id, qid int64
		err := rows.Scan(&id, &qid)
		due, of = append(due, id), append(of, r.w.names.byID[qid])
		return err
	})
	if err == nil && len(due) > 0 {
		if err = r.begin(); err == nil {
			_, err = r.w.st.promote.exec(nil, due, nil)
		}
	}
	if err != nil {
		return err
	}
	for i, q := range of {
		r.moved(q, due[i].(int64), StateScheduled, StateQueued)
	}
	r.next.scheduled, err = upcoming(r.w.st.nextDue)
	return err
}

const expiredReason = "expired: it was not claimed before its expires_at"

// expireStale buries jobs that nobody claimed in time.
func (r *round) expireStale() error {
	jobs, err := r.heldAll(r.w.st.staleJobs, r.now.wall, stepRows)
	if err != nil {
		return err
	}
	if err := r.each(jobs, r.expire); err != nil {
		return err
	}
	r.next.expiry, err = upcoming(r.w.st.nextExpiry)
	return err
}

func (r *round) expire(h *heldJob) error { return r.settle(h, StateDead, because(expiredReason)) }

// step follows a step of the wall clock: leases keep the time that they have
// left, and for an hour nothing is deleted for its age, as the clock may be
// the one that is wrong.
func (r *round) step() error {
	by := r.now.wall - r.now.lease
	if -maxDrift <= by && by <= maxDrift {
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	res, err := r.w.st.shiftLeases.Exec(by, by)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return err
	}
	r.dirty = r.dirty || n > 0
	r.now.lease += by
	if r.next.lease != never {
		r.next.lease += by
	}
	r.next.paused = r.now.mono + stepPause
	r.done = append(r.done, func() {
		r.w.clock.shift += by
		r.w.log.Warn("the machine's clock was set; leases keep their time, and nothing is deleted for an hour", "by", millis(by))
	})
	return nil
}
