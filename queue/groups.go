package queue

import (
	"context"
	"database/sql"
	"slices"
)

// groupScan bounds the rows that DeadGroups looks at when the index alone does
// not tell which of them count.
const groupScan = 200_000

// DeadGroup is dead jobs of a queue whose errors are of one kind.
type DeadGroup struct {
	Queue   string
	ErrorFP string // empty: jobs without an error
	Jobs    int64
	Sample  Job // the one with the highest id, without its payload
}

// DeadGroups is what [Reader.DeadGroups] counts.
type DeadGroups struct {
	Groups  []DeadGroup // those with the most jobs first
	Kinds   int         // groups in all, also those beyond Filter.Limit
	Total   int64       // jobs in all of them
	Partial bool        // not all dead jobs were looked at: the numbers are the least that they can be
}

// With nothing to filter by, and no archived job to leave out, the index has all
// that is asked for. Else the rows have to be looked at, up to a bound.
const (
	groupsByIndex = `select queue, error_fp, count(*), max(id) from jobs indexed by dead where state = 7 and queue = ? group by error_fp`
	groupsByRow   = `select queue, error_fp, sum(ok), max(case when ok then id end), count(*) from (
 select j.queue, j.error_fp, j.id, j.flags & 16 = 0 and ?2 in ('', (select t.name from types t where t.id = j.type)) and j.at >= ?3 and j.at < ?4 as ok
 from jobs j indexed by dead where j.state = 7 and j.queue = ?1 and (?5 = 0 or j.error_fp = ?6) limit ?7) group by error_fp`
)

// DeadGroups counts dead jobs that are not archived, by queue and kind of error.
// It uses the fields Queue, Type, ErrorFP, FinishedSince, FinishedBefore, Allow
// and Limit, of the groups that are returned.
//
// Errors: *SpecError, ErrNoQueue, ErrClosed, ctx.Err().
func (q *Reader) DeadGroups(ctx context.Context, f Filter) (DeadGroups, error) {
	f.State = StateDead
	l, err := f.listing()
	if err != nil {
		return DeadGroups{}, err
	}
	var out DeadGroups
	err = q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		queues, err := l.queueIDs(ctx, tx)
		if err != nil {
			return err
		}
		var found []deadGroup
		for _, id := range queues {
			some, partial, err := l.groups(ctx, tx, id, max(groupScan/len(queues), 1000))
			if err != nil {
				return err
			}
			found, out.Partial = append(found, some...), out.Partial || partial
		}
		slices.SortFunc(found, func(a, b deadGroup) int {
			if a.jobs != b.jobs {
				return int(min(max(b.jobs-a.jobs, -1), 1))
			}
			return int(min(max(b.sample-a.sample, -1), 1))
		})
		for _, g := range found {
			out.Kinds, out.Total = out.Kinds+1, out.Total+g.jobs
		}
		out.Groups, err = samples(ctx, tx, found[:min(len(found), l.limit)])
		return err
	})
	return out, err
}

type deadGroup struct {
	fp           sql.NullInt64
	jobs, sample int64
}

// groups counts those of one queue.
func (l *listing) groups(ctx context.Context, tx *sql.Tx, queue int64, most int) (out []deadGroup, partial bool, err error) {
	if l.Type == "" && l.ErrorFP == "" && l.FinishedSince.IsZero() && l.FinishedBefore.IsZero() {
		total := int64(0)
		err := eachOf(ctx, tx, func(rows *sql.Rows) error {
			var g deadGroup
			var id int64
			err := rows.Scan(&id, &g.fp, &g.jobs, &g.sample)
			out, total = append(out, g), total+g.jobs
			return err
		}, groupsByIndex, queue)
		if err != nil {
			return nil, false, err
		}
		var counted int64
		if err := tx.QueryRowContext(ctx, "select dead from counts where id = ?", queue).Scan(&counted); err != nil || counted == total {
			return out, false, err
		}
		out = nil // some are archived
	}
	since, before := int64(0), int64(1)<<62
	if !l.FinishedSince.IsZero() {
		since = l.FinishedSince.UnixMilli()
	}
	if !l.FinishedBefore.IsZero() {
		before = l.FinishedBefore.UnixMilli()
	}
	var seen int64
	err = eachOf(ctx, tx, func(rows *sql.Rows) error {
		var g deadGroup
		var id, looked int64
		var sample sql.NullInt64
		if err := rows.Scan(&id, &g.fp, &g.jobs, &sample, &looked); err != nil {
			return err
		}
		seen += looked
		if g.sample = sample.Int64; g.jobs > 0 {
			out = append(out, g)
		}
		return nil
	}, groupsByRow, queue, l.Type, since, before, l.ErrorFP != "", l.fp, most)
	return out, seen == int64(most), err
}

// samples reads the jobs that stand for groups.
func samples(ctx context.Context, tx *sql.Tx, found []deadGroup) ([]DeadGroup, error) {
	ids := make([]int64, len(found))
	for i, g := range found {
		ids[i] = g.sample
	}
	jobs, err := jobsByID(ctx, tx, ids, false)
	if err != nil {
		return nil, err
	}
	out := make([]DeadGroup, 0, len(found))
	for i, j := range jobs { // all are there: it is one snapshot
		out = append(out, DeadGroup{Queue: j.Queue, ErrorFP: j.ErrorFP, Jobs: found[i].jobs, Sample: j})
	}
	return out, nil
}
