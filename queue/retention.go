package queue

import (
	"database/sql"
	"slices"
	"time"
)

var finalStates = []State{StateDone, StateDead, StateCancelled}

// retain deletes finished jobs that are older, or more, than their queue's
// settings keep. It goes through the queues for as long as a step may take,
// deletes one step of one queue and state, and leaves the rest to the next
// round.
func (r *round) retain() error {
	start := time.Now()
	queues := r.w.names.order
	for ; r.next.retained < len(queues); r.next.retained++ {
		if time.Since(start) > stepTime {
			r.next.again = true
			return nil
		}
		q := queues[r.next.retained]
		for _, s := range finalStates {
			n, err := r.deleteOld(q, s)
			if err != nil {
				return err
			}
			if n > 0 { // there may be more
				r.next.again = true
				return nil
			}
		}
	}
	r.next.retained = 0
	r.next.retention = r.now.mono + retainEvery
	return nil
}

// deleteOld deletes a step's worth of the jobs of a queue in a final state
// that are not to be kept, and returns how many they were.
func (r *round) deleteOld(q *queueState, s State) (int, error) {
	k := q.settings.retention(s)
	if k.AgeMS >= 0 {
		n, err := r.deleteFinished(q, s, r.w.st.oldJobs, q.id, s, r.now.wall-k.AgeMS, stepRows)
		if n > 0 || err != nil {
			return n, err
		}
	}
	if over := r.count(q, s) - k.Last; k.Last > 0 && over > 0 {
		return r.deleteFinished(q, s, r.w.st.oldest, q.id, s, min(over, stepRows))
	}
	return 0, nil
}

// deleteFinished deletes the jobs whose ids and flags a statement returns.
func (r *round) deleteFinished(q *queueState, s State, stmt *sql.Stmt, args ...any) (int, error) {
	start := time.Now()
	var old []any
	archived := map[any]bool{}
	err := scanAll(stmt, args, func(rows *sql.Rows) error {
		var id, flags int64
		err := rows.Scan(&id, &flags)
		old = append(old, id)
		if s == StateDead && flags&flagArchived != 0 {
			archived[id] = true
		}
		return err
	})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	if err := r.begin(); err != nil {
		return 0, err
	}
	deleted := 0
	for some := range slices.Chunk(old, sizes[0]) {
		if deleted > 0 && time.Since(start) > stepTime {
			break
		}
		if err := r.erase(some); err != nil {
			return 0, err
		}
		for _, id := range some {
			if !archived[id] {
				r.move(q, s, 0, 1)
			}
			r.noted(q, id.(int64), s, 0)
		}
		deleted += len(some)
	}
	r.dirty = true
	return deleted, nil
}

// erase deletes jobs with all that belongs to them. Their idempotency keys are
// free by that, and swept later.
func (r *round) erase(ids []any) error {
	st := r.w.st
	for _, l := range []*listStmt{st.deleteJobs, st.deletePayloads, st.deleteOutcomes, st.deleteRuns} {
		if _, err := l.exec(nil, ids, nil); err != nil {
			return err
		}
	}
	return nil
}
