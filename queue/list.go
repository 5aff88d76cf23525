package queue

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A list walks an index in its own order and filters in Go. One page looks at
// scanned rows at most, so its cost has a bound whatever the filter; the
// cursor says where the next page goes on.
const (
	scanned     = 10_000
	defaultPage = 100
)

// walk is the order in which jobs of a state are listed: that of the index
// that holds them. The key columns are its cursor; the last of them is the id.
type walk struct {
	where string // selects the state, with a ? for the queue if queue is set
	queue bool   // the index begins with the queue: one walk a queue, merged
	keys  []string
	order string
	desc  bool // the keys fall
	// after are the conditions for what comes behind a cursor, one query each,
	// in order. A condition takes the first keys of the cursor, one for each ?.
	after []string
}

var (
	newestFirst = walk{where: "1", keys: []string{"id"}, order: "id desc", desc: true, after: []string{"id < ?"}}
	// Two queries: a single comparison of priority, run_at and id, of which
	// the first falls and the others rise, could not seek in the index.
	claimOrder = walk{
		where: "state = 4 and queue = ?", queue: true, keys: []string{"-priority", "run_at", "id"}, order: "priority desc, run_at, id",
		after: []string{"priority = -? and (run_at, id) > (?, ?)", "priority < -?"},
	}
	dueOrder    = walk{where: "state = 3", keys: []string{"at", "id"}, order: "at, id", after: []string{"(at, id) > (?, ?)"}}
	leaseOrder  = walk{where: "state = 5", keys: []string{"at", "id"}, order: "at, id", after: []string{"(at, id) > (?, ?)"}}
	finishOrder = walk{queue: true, keys: []string{"at", "id"}, order: "at desc, id desc", desc: true, after: []string{"(at, id) < (?, ?)"}}
	errorOrder  = walk{queue: true, keys: []string{"id"}, order: "id desc", desc: true, after: []string{"id < ?"}}
)

// listing is a filter with its walk, and in the terms of a row.
type listing struct {
	Filter
	walk
	limit   int
	after   []int64        // the cursor
	fp      int64          // of ErrorFP
	allowed map[int64]bool // the queues that Allow allows; nil: all
}

// listing checks a filter and chooses its walk.
func (f Filter) listing() (*listing, error) {
	l := &listing{Filter: f, limit: cmp.Or(f.Limit, defaultPage)}
	if l.limit < 0 || l.limit > MaxPage {
		return nil, &SpecError{"limit", fmt.Sprintf("must be from 1 to %d", MaxPage)}
	}
	var err error
	if f.ErrorFP != "" {
		if l.fp, err = parseFingerprint(f.ErrorFP); err != nil {
			return nil, err
		}
	}
	if !f.State.Final() && !(f.FinishedSince.IsZero() && f.FinishedBefore.IsZero()) {
		return nil, &SpecError{"finished", "goes with a final state alone: done, dead or cancelled"}
	}
	switch f.State {
	case StateScheduled:
		l.walk = dueOrder
	case StateQueued:
		l.walk = claimOrder
	case StateRunning:
		l.walk = leaseOrder
	case StateDone, StateDead, StateCancelled:
		l.walk = finishOrder
		l.where = fmt.Sprintf("state = %d and state >= 6 and queue = ?", f.State)
		if f.State == StateDead && f.ErrorFP != "" {
			l.walk = errorOrder
			l.where = fmt.Sprintf("state = 7 and queue = ? and error_fp = %d", l.fp)
		}
	default:
		l.walk = newestFirst
	}
	l.after, err = parseCursor(f.After, len(l.keys))
	return l, err
}

// Jobs returns a page of jobs: those of a state in the order in which they are
// next (queued: as claims take them; scheduled: by due time; running: by end
// of lease; final: latest first, dead ones of one error by id), without a
// state the newest first. A page looks at a bounded number of rows: it may be
// short, even empty, before the end, which is where Next is empty; one with
// payloads has a few dozen jobs at most.
//
// Errors: *SpecError, ErrNoQueue, ErrClosed, ctx.Err().
func (q *Reader) Jobs(ctx context.Context, f Filter) (Page, error) {
	l, err := f.listing()
	if err != nil {
		return Page{}, err
	}
	if f.WithPayload {
		l.limit = min(l.limit, payloadPage)
	}
	var page Page
	err = q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		found, next, err := l.page(ctx, tx)
		if err != nil {
			return err
		}
		page.Next = next
		page.Jobs, err = jobsByID(ctx, tx, found, f.WithPayload)
		return err
	})
	return page, err
}

// ids returns the ids of a page of jobs and the next page's cursor.
func (q *Queue) ids(ctx context.Context, l *listing) (found []int64, next string, err error) {
	err = q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		found, next, err = l.page(ctx, tx)
		return err
	})
	return found, next, err
}

// A cursor is the key of the last row that was looked at: numbers with
// underscores between.
func parseCursor(text string, n int) ([]int64, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "_")
	if len(parts) != n {
		return nil, &SpecError{"after", "is not the next of a page of this list"}
	}
	out := make([]int64, n)
	for i, p := range parts {
		v, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return nil, &SpecError{"after", "is not the next of a page of this list"}
		}
		out[i] = v
	}
	return out, nil
}

func formatCursor(keys []int64) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = strconv.FormatInt(k, 10)
	}
	return strings.Join(parts, "_")
}

// queueIDs returns the queues that the filter allows, or the one it names.
func (l *listing) queueIDs(ctx context.Context, tx *sql.Tx) ([]int64, error) {
	var out []int64
	err := eachOf(ctx, tx, func(rows *sql.Rows) error {
		var id int64
		var name string
		err := rows.Scan(&id, &name)
		if err == nil && (l.Allow == nil || l.Allow(name)) {
			out = append(out, id)
		}
		return err
	}, "select id, name from queues where ?1 in ('', name)", l.Queue)
	if err == nil && l.Queue != "" && len(out) == 0 {
		err = &NoQueueError{l.Queue}
	}
	return out, err
}

// page merges the walks of several queues into one page of ids and the cursor
// of the next.
func (l *listing) page(ctx context.Context, tx *sql.Tx) ([]int64, string, error) {
	queues, err := l.queueIDs(ctx, tx)
	if err != nil {
		return nil, "", err
	}
	if l.Allow != nil {
		l.allowed = map[int64]bool{}
		for _, id := range queues {
			l.allowed[id] = true
		}
	}
	only := int64(0) // the queue that a row must be of; 0: any
	if l.Queue != "" {
		only = queues[0]
	}
	if !l.queue {
		queues = []int64{0}
	}
	var all [][]int64
	var horizon []int64 // the first of the places where a walk stopped before its end
	for _, id := range queues {
		found, stop, err := l.walkOne(ctx, tx, id, only, scanned/len(queues)+l.limit)
		if err != nil {
			return nil, "", err
		}
		all = append(all, found...)
		if stop != nil && (horizon == nil || l.compare(stop, horizon) < 0) {
			horizon = stop
		}
	}
	slices.SortFunc(all, l.compare)
	if horizon != nil { // beyond it another walk may have rows in between
		all = slices.DeleteFunc(all, func(keys []int64) bool { return l.compare(keys, horizon) > 0 })
	}
	if len(all) > l.limit {
		all = all[:l.limit]
		horizon = all[l.limit-1]
	}
	found := make([]int64, len(all))
	for i, keys := range all {
		found[i] = keys[len(keys)-1]
	}
	if horizon == nil {
		return found, "", nil
	}
	return found, formatCursor(horizon), nil
}

func (w *walk) compare(a, b []int64) int {
	if w.desc {
		a, b = b, a
	}
	return slices.Compare(a, b)
}

// walkOne walks one queue, or all where the index does not begin with the
// queue. It stops when it has one match more than the limit, or has looked at
// most rows, and then returns the key of the last one it looked at, nil at the
// end.
func (l *listing) walkOne(ctx context.Context, tx *sql.Tx, queue, only int64, most int) (found [][]int64, stop []int64, err error) {
	after := []string{""}
	if l.after != nil {
		after = l.walk.after
	}
	seen, last := 0, l.after
	for _, condition := range after {
		err = l.query(ctx, tx, queue, condition, func(r *listed) bool {
			if seen == most || len(found) > l.limit {
				stop = last
				return false
			}
			seen++
			last = r.keys
			if l.matches(r, only) {
				found = append(found, r.keys)
			}
			return true
		})
		if err != nil || stop != nil {
			return found, stop, err
		}
	}
	return found, nil, nil
}

// listed is what a list looks at of a job.
type listed struct {
	keys             []int64
	queue, at, flags int64
	fp               sql.NullInt64
	typ              string
	spec             []byte // if tags matter
}

// query calls each for the rows that a condition selects, until it returns
// false.
func (l *listing) query(ctx context.Context, tx *sql.Tx, queue int64, condition string, each func(*listed) bool) error {
	var args []any
	if l.queue {
		args = append(args, queue)
	}
	args = append(args, ids(l.after[:strings.Count(condition, "?")])...)
	rows, err := tx.QueryContext(ctx, l.text(condition), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r := &listed{keys: make([]int64, len(l.keys))}
		dst := make([]any, 0, len(l.keys)+6)
		for i := range r.keys {
			dst = append(dst, &r.keys[i])
		}
		if err := rows.Scan(append(dst, &r.queue, &r.at, &r.flags, &r.fp, &r.typ, &r.spec)...); err != nil {
			return err
		}
		if !each(r) {
			return nil
		}
	}
	return rows.Err()
}

// text is the statement for a condition on the cursor.
func (l *listing) text(condition string) string {
	text := "select " + strings.Join(l.keys, ", ") + ", queue, at, flags, error_fp, (select name from types t where t.id = type), "
	if l.Tag != "" {
		text += "spec"
	} else {
		text += "null"
	}
	text += " from jobs where " + l.where
	if condition != "" {
		text += " and " + condition
	}
	return text + " order by " + l.order
}

// matches reports whether a row is one that the filter selects.
func (l *listing) matches(r *listed, queue int64) bool {
	switch {
	case queue != 0 && r.queue != queue,
		l.allowed != nil && !l.allowed[r.queue],
		l.Type != "" && r.typ != l.Type,
		l.ErrorFP != "" && (!r.fp.Valid || r.fp.Int64 != l.fp),
		!l.FinishedSince.IsZero() && r.at < l.FinishedSince.UnixMilli(),
		!l.FinishedBefore.IsZero() && r.at >= l.FinishedBefore.UnixMilli(),
		l.State == StateDead && r.flags&flagArchived != 0 && !l.Archived,
		l.Tag != "" && !hasTag(r.spec, l.Tag):
		return false
	}
	return true
}

func hasTag(text []byte, tag string) bool {
	var own spec
	if len(text) == 0 || json.Unmarshal(text, &own) != nil {
		return false
	}
	if _, ok := own.Tags[tag]; ok {
		return true
	}
	for i := range len(tag) {
		if tag[i] == ':' {
			if v, ok := own.Tags[tag[:i]]; ok && v == tag[i+1:] {
				return true
			}
		}
	}
	return false
}
