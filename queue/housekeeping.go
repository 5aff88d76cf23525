package queue

import (
	"database/sql"
	"math"
	"time"
)

// agenda is when the writer has to do something by itself: nothing is polled,
// and nothing is written while there is nothing to do. Times are Unix
// milliseconds; never is the end of time.
type agenda struct {
	scheduled int64 // wall clock: the next job falls due
	expiry    int64 // wall clock: the next job expires unclaimed
	lease     int64 // lease clock: the next lease ends, or ended but for an extend or ack
	retention int64 // wall clock: look for old jobs
	again     bool  // there is more to do at once
}

const (
	never        = math.MaxInt64
	stepRows     = 500              // of one housekeeping step, a few milliseconds
	reapEvery    = 200              // ms between two looks at the leases
	retainEvery  = 60_000           // ms between two looks for old jobs
	retryAfter   = 1_000            // ms after a step that failed
	longestSleep = time.Minute      // notices a stepped wall clock
	bootGrace    = 30 * time.Second // for leases that ended while the node was down
)

// sleep is how long the writer may wait.
func (a *agenda) sleep(now instant) time.Duration {
	if a.again {
		return 0
	}
	ms := min(a.scheduled-now.wall, a.expiry-now.wall, a.retention-now.wall, a.lease-now.lease)
	return max(0, min(time.Duration(min(ms, longestSleep.Milliseconds()))*time.Millisecond, longestSleep))
}

// postpone puts off what is due after a step that failed.
func (a *agenda) postpone(now instant) {
	a.again = false
	a.scheduled = max(a.scheduled, now.wall+retryAfter)
	a.expiry = max(a.expiry, now.wall+retryAfter)
	a.retention = max(a.retention, now.wall+retryAfter)
	a.lease = max(a.lease, now.lease+retryAfter)
}

// housekeep does what is due, each kind by one bounded step.
func (r *round) housekeep() error {
	due := r.w.due
	r.next.again = false
	for _, s := range []struct {
		due  bool
		step func() error
	}{
		{due.lease <= r.now.lease, r.reap},
		{due.scheduled <= r.now.wall, r.promote},
		{due.expiry <= r.now.wall, r.expireStale},
		{due.retention <= r.now.wall, r.retain},
	} {
		if !s.due {
			continue
		}
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}

// upcoming reads the time of the next row, or never.
func upcoming(stmt *sql.Stmt, args ...any) (int64, error) {
	at, ok, err := scanInt(stmt, args...)
	if err != nil || !ok {
		return never, err
	}
	return at, nil
}

// reap ends the runs whose leases ended. Leases that ended while the node was
// down are left alone for a while, so that workers that lived on can extend or
// finish them.
func (r *round) reap() (err error) {
	after := int64(0)
	if r.now.lease < r.w.bootedAt+bootGrace.Milliseconds() {
		after = r.w.bootedAt
	}
	jobs, err := r.heldAll(r.w.st.expired, after, r.now.lease, stepRows)
	if err != nil {
		return err
	}
	for _, h := range jobs {
		if err := r.lapse(h); err != nil {
			return err
		}
	}
	next, err := upcoming(r.w.st.nextLease, after)
	if after > 0 {
		next = min(next, after+bootGrace.Milliseconds())
	}
	r.next.lease = max(next, r.now.lease+reapEvery)
	if len(jobs) == stepRows {
		r.next.again = true
		r.next.lease = r.now.lease
	}
	return err
}

// promote makes scheduled jobs claimable whose time has come.
func (r *round) promote() (err error) {
	var due []any
	moved := map[int64]int64{}
	err = scanAll(r.w.st.dueJobs, []any{r.now.wall, stepRows}, func(rows *sql.Rows) error {
		var id, qid int64
		err := rows.Scan(&id, &qid)
		due = append(due, id)
		moved[qid]++
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
	for qid, n := range moved {
		r.move(r.w.names.byID[qid], StateScheduled, StateQueued, n)
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
	for _, h := range jobs {
		if err := r.settle(h, StateDead, expiredReason); err != nil {
			return err
		}
	}
	r.next.expiry, err = upcoming(r.w.st.nextExpiry)
	return err
}

// expire buries one job that came up for a claim too late.
func (r *round) expire(id int64) error {
	h, err := r.held(id)
	if err != nil {
		return err
	}
	return r.settle(h, StateDead, expiredReason)
}

// retain deletes old finished jobs, one step of one queue and state at a time.
func (r *round) retain() error {
	for _, q := range r.w.names.byID {
		for _, s := range []State{StateDone, StateCancelled, StateDead} {
			keep := q.settings.retention(s)
			if keep < 0 {
				continue
			}
			n, err := r.deleteOld(q, s, r.now.wall-keep.Milliseconds())
			if err != nil {
				return err
			}
			if n > 0 {
				r.next.again = true
				return nil
			}
		}
	}
	r.next.retention = r.now.wall + retainEvery
	return nil
}

func (r *round) deleteOld(q *queueState, s State, before int64) (int64, error) {
	var old []any
	archived := int64(0)
	err := scanAll(r.w.st.oldJobs, []any{q.id, s, before, stepRows}, func(rows *sql.Rows) error {
		var id, flags int64
		err := rows.Scan(&id, &flags)
		old = append(old, id)
		if flags&flagArchived != 0 {
			archived++
		}
		return err
	})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	if err := r.begin(); err != nil {
		return 0, err
	}
	for _, l := range []*bulk{r.w.st.deleteJobs, r.w.st.deletePayloads, r.w.st.deleteOutcomes, r.w.st.deleteRuns} {
		if _, err := l.exec(nil, old, nil); err != nil {
			return 0, err
		}
	}
	r.move(q, s, 0, int64(len(old))-archived)
	return int64(len(old)), nil
}
