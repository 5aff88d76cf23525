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
	Sample  Job // the one with the highest id, without payload, result and progress
}

// DeadGroups is what [Reader.DeadGroups] counts.
type DeadGroups struct {
	Groups  []DeadGroup // those with the most jobs first
	Kinds   int         // groups in all, also those beyond Filter.Limit
	Total   int64       // jobs in all of them
	Partial bool        // not all dead jobs were looked at: the numbers are the least that they can be
}

// With nothing to filter by, and no archived job to leave out, the index has all
// that is asked for. Else the rows have to be looked at, up to a bound: those of
// one error, if that is asked for.
const (
	groupsByIndex = `select queue, error_fp, count(*), max(id) from jobs indexed by dead where state = 7 and queue = ? group by error_fp`
	groupsByRow   = groupRows + groupRowsEnd
	groupsOfError = groupRows + ` and j.error_fp = ?7` + groupRowsEnd

	groupRows = `select queue, error_fp, sum(ok), max(case when ok then id end), count(*) from (
 select j.queue, j.error_fp, j.id, j.flags & 16 = 0 and ?2 in ('', (select t.name from types t where t.id = j.type)) and j.at >= ?3 and j.at < ?4
  and (?5 = '' or exists (select 1 from json_each(iif(json_valid(j.spec), j.spec, '{}'), '$.tags') g where ?5 in (g.key, g.key || ':' || g.value))) as ok
 from jobs j indexed by dead where j.state = 7 and j.queue = ?1`
	groupRowsEnd = ` limit ?6) group by error_fp`
)

// DeadGroups counts dead jobs that are not archived, by queue and kind of error.
// It uses the fields Queue, Type, Tag, ErrorFP, FinishedSince, FinishedBefore,
// Allow and Limit, of the groups that are returned.
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

// groups counts those of one queue, of which it looks at so many rows at most.
func (l *listing) groups(ctx context.Context, tx *sql.Tx, queue int64, most int) (out []deadGroup, partial bool, err error) {
	if l.Type+l.Tag+l.ErrorFP == "" && l.FinishedSince.IsZero() && l.FinishedBefore.IsZero() {
		out, ok, err := groupsOfIndex(ctx, tx, queue)
		if err != nil || ok {
			return out, false, err
		}
	}
	since, before := int64(0), int64(1)<<62
	if !l.FinishedSince.IsZero() {
		since = l.FinishedSince.UnixMilli()
	}
	if !l.FinishedBefore.IsZero() {
		before = l.FinishedBefore.UnixMilli()
	}
	text, args := groupsByRow, []any{queue, l.Type, since, before, l.Tag, most}
	if l.ErrorFP != "" {
		text, args = groupsOfError, append(args, l.fp)
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
	}, text, args...)
	return out, seen == int64(most), err
}

// groupsOfIndex counts all dead jobs of a queue. It is not ok if some of them
// are archived.
func groupsOfIndex(ctx context.Context, tx *sql.Tx, queue int64) (out []deadGroup, ok bool, err error) {
	total, counted := int64(0), int64(0)
	err = eachOf(ctx, tx, func(rows *sql.Rows) error {
		var g deadGroup
		var id int64
		err := rows.Scan(&id, &g.fp, &g.jobs, &g.sample)
		out, total = append(out, g), total+g.jobs
		return err
	}, groupsByIndex, queue)
	if err == nil {
		err = tx.QueryRowContext(ctx, "select dead from counts where id = ?", queue).Scan(&counted)
	}
	return out, counted == total, err
}

// samples reads the jobs that stand for groups, a few at a time: what their
// workers said besides the error may be much, and is left out.
func samples(ctx context.Context, tx *sql.Tx, found []deadGroup) ([]DeadGroup, error) {
	out := make([]DeadGroup, 0, len(found))
	for chunk := range slices.Chunk(found, 64) {
		ids := make([]int64, len(chunk))
		for i, g := range chunk {
			ids[i] = g.sample
		}
		jobs, err := jobsByID(ctx, tx, ids, false)
		if err != nil {
			return nil, err
		}
		for i, j := range jobs { // all are there: it is one snapshot
			j.Result, j.Progress = nil, nil
			out = append(out, DeadGroup{Queue: j.Queue, ErrorFP: j.ErrorFP, Jobs: chunk[i].jobs, Sample: j})
		}
	}
	return out, nil
}
