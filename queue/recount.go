package queue

import (
	"context"
	"database/sql"
	"fmt"
)

// Difference is a counter that is not what the rows say. There is none unless
// something else wrote to the file, or there is a bug.
type Difference struct {
	Queue   string
	State   State
	Counter int64 // what Counts says
	Rows    int64 // what is there
}

// Recount counts the rows behind every counter, and returns those that differ.
// It changes nothing. It reads an index entry for each job, which takes about
// a second for some millions.
//
// Errors: ErrClosed, ctx.Err(), context.DeadlineExceeded when a state has too
// many jobs to be counted at one go.
func (q *Queue) Recount(ctx context.Context) ([]Difference, error) {
	var out []Difference
	for s := StateBlocked; s <= StateCancelled; s++ {
		// A snapshot for each state: a long one would hold the WAL.
		err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
			found, err := recount(ctx, tx, s)
			out = append(out, found...)
			return err
		})
		if err != nil {
			return out, fmt.Errorf("recount %s: %w", s, err)
		}
	}
	return out, nil
}

// counted are the rows behind a counter, found by the index of their state.
var counted = map[State]string{
	StateBlocked:   "select queue, count(*) from jobs where state = 2 group by queue",
	StateScheduled: "select queue, count(*) from jobs indexed by due where state = 3 group by queue",
	StateQueued:    "select queue, count(*) from jobs indexed by claimable where state = 4 group by queue",
	StateRunning:   "select queue, count(*) from jobs indexed by leases where state = 5 group by queue",
	StateDone:      finishedCount,
	StateDead:      "select queue, count(*) from jobs indexed by dead where state = 7 and flags & 16 = 0 group by queue",
	StateCancelled: finishedCount,
}

const finishedCount = `select q.id, (select count(*) from jobs indexed by finished where queue = q.id and state = ?1 and state >= 6) from queues q`

func recount(ctx context.Context, tx *sql.Tx, s State) ([]Difference, error) {
	rows := map[int64]int64{}
	args := []any{}
	if counted[s] == finishedCount {
		args = append(args, s)
	}
	if err := eachOf(ctx, tx, func(r *sql.Rows) error {
		var id, n int64
		err := r.Scan(&id, &n)
		rows[id] = n
		return err
	}, counted[s], args...); err != nil {
		return nil, err
	}
	var out []Difference
	err := eachOf(ctx, tx, func(r *sql.Rows) error {
		d := Difference{State: s}
		var id int64
		err := r.Scan(&id, &d.Queue, &d.Counter)
		if d.Rows = rows[id]; d.Rows != d.Counter {
			out = append(out, d)
		}
		return err
	}, "select q.id, q.name, c."+s.String()+" from queues q join counts c on c.id = q.id order by q.name")
	return out, err
}
