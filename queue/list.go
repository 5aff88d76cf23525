package queue

import (
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
// that holds them. The key columns are its cursor.
type walk struct {
	where string // selects the state, with a ? for the queue if perQueue
	keys  []string
	after string // the rows behind a cursor of as many parameters as keys
	order string
	queue bool // the index begins with the queue: one walk a queue, merged
}

var (
	newestFirst = walk{where: "1", keys: []string{"id"}, after: "id < ?", order: "id desc"}
	claimOrder  = walk{
		where: "state = 4 and queue = ?", keys: []string{"-priority", "run_at", "id"},
		after: "(-priority, run_at, id) > (?, ?, ?)", order: "priority desc, run_at, id", queue: true,
	}
	dueOrder    = walk{where: "state = 3", keys: []string{"at", "id"}, after: "(at, id) > (?, ?)", order: "at, id"}
	leaseOrder  = walk{where: "state = 5", keys: []string{"at", "id"}, after: "(at, id) > (?, ?)", order: "at, id"}
	finishOrder = walk{keys: []string{"at", "id"}, after: "(at, id) < (?, ?)", order: "at desc, id desc", queue: true}
)

func walkOf(s State) walk {
	switch s {
	case StateScheduled:
		return dueOrder
	case StateQueued:
		return claimOrder
	case StateRunning:
		return leaseOrder
	case StateDone, StateDead, StateCancelled:
		w := finishOrder
		w.where = "state = " + strconv.Itoa(int(s)) + " and state >= 6 and queue = ?"
		return w
	}
	return newestFirst
}

// light is what the filter needs of a row.
type light struct {
	id   int64
	keys []int64
}

// Jobs returns a page of jobs: those of a state in the order in which they are
// next (queued: as claims take them; scheduled: by due time; running: by end
// of lease; final: latest first), without a state the newest first. A page
// looks at a bounded number of rows: it may be short, even empty, before the
// end, which is where Next is empty.
//
// Errors: *SpecError, ErrNotFound when there is no such queue, ErrClosed, ctx.Err().
func (q *Queue) Jobs(ctx context.Context, f Filter) (Page, error) {
	var page Page
	m, w, after, err := f.prepare()
	if err != nil {
		return page, err
	}
	err = q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		queues, err := queueIDs(ctx, tx, f.Queue)
		if err != nil {
			return err
		}
		if f.Queue != "" {
			m.queue = queues[0]
		}
		if !w.queue {
			queues = []int64{0}
		}
		found, next, err := w.page(ctx, tx, queues, after, m)
		if err != nil {
			return err
		}
		ids := make([]int64, len(found))
		for i, l := range found {
			ids[i] = l.id
		}
		page.Jobs, err = jobsByID(ctx, tx, ids, f.WithPayload)
		page.Next = next
		return err
	})
	return page, err
}

// matcher is a filter in the terms of a row.
type matcher struct {
	limit    int
	queue    int64 // 0: any
	typ      string
	fp       int64
	byFP     bool
	tag      string
	archived bool
	state    State
}

func (f *Filter) prepare() (m matcher, w walk, after []int64, err error) {
	w = walkOf(f.State)
	m = matcher{limit: f.Limit, typ: f.Type, tag: f.Tag, archived: f.Archived, state: f.State}
	if m.limit == 0 {
		m.limit = defaultPage
	}
	if m.limit < 0 || m.limit > MaxPage {
		return m, w, nil, &SpecError{"limit", fmt.Sprintf("must be from 1 to %d", MaxPage)}
	}
	if f.ErrorFP != "" {
		m.byFP = true
		if m.fp, err = parseFingerprint(f.ErrorFP); err != nil {
			return m, w, nil, err
		}
	}
	after, err = parseCursor(f.After, len(w.keys))
	return m, w, after, err
}

// A cursor is the key of the last row that was looked at, as numbers with dots.
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

func queueIDs(ctx context.Context, tx *sql.Tx, name string) ([]int64, error) {
	query, args := "select id from queues", []any(nil)
	if name != "" {
		query, args = query+" where name = ?", []any{name}
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	if name != "" && len(out) == 0 && rows.Err() == nil {
		return nil, fmt.Errorf("%w: no queue is called %q yet", ErrNotFound, name)
	}
	return out, rows.Err()
}

// page merges the walks of several queues into one page and its cursor.
func (w walk) page(ctx context.Context, tx *sql.Tx, queues []int64, after []int64, m matcher) ([]light, string, error) {
	var all []light
	var horizon []int64 // the first of the places where a walk stopped before its end
	for _, id := range queues {
		found, stop, err := w.one(ctx, tx, id, after, m, scanned/len(queues)+m.limit)
		if err != nil {
			return nil, "", err
		}
		all = append(all, found...)
		if stop != nil && (horizon == nil || w.compare(stop, horizon) < 0) {
			horizon = stop
		}
	}
	slices.SortFunc(all, func(a, b light) int { return w.compare(a.keys, b.keys) })
	if horizon != nil { // beyond it another walk may have rows in between
		n := 0
		for n < len(all) && w.compare(all[n].keys, horizon) <= 0 {
			n++
		}
		all = all[:n]
	}
	if len(all) > m.limit {
		all = all[:m.limit]
		horizon = all[m.limit-1].keys
	}
	if horizon == nil {
		return all, "", nil
	}
	return all, formatCursor(horizon), nil
}

func (w walk) compare(a, b []int64) int {
	c := slices.Compare(a, b)
	if strings.HasSuffix(w.order, "id desc") {
		return -c
	}
	return c
}

// one walks one queue, or all where the index does not begin with the queue.
// It stops after limit matches or most rows and then returns the key of the
// last one it looked at; nil means that it came to the end.
func (w walk) one(ctx context.Context, tx *sql.Tx, queue int64, after []int64, m matcher, most int) ([]light, []int64, error) {
	query := "select " + strings.Join(w.keys, ", ") + ", id, queue, state, flags, error_fp, (select name from types t where t.id = type)"
	if m.tag != "" {
		query += ", spec"
	} else {
		query += ", null"
	}
	query += " from jobs where " + w.where
	var args []any
	if w.queue {
		args = append(args, queue)
	}
	if after != nil {
		query += " and " + w.after
		args = append(args, ids(after)...)
	}
	query += " order by " + w.order + " limit " + strconv.Itoa(most+1)
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var out []light
	var last []int64
	for n := 0; rows.Next(); n++ {
		if n == most || len(out) > m.limit {
			return out, last, nil
		}
		l := light{keys: make([]int64, len(w.keys))}
		ok, err := m.scan(rows, &l)
		if err != nil {
			return nil, nil, err
		}
		last = l.keys
		if ok {
			out = append(out, l)
		}
	}
	return out, nil, rows.Err()
}

// scan reads a row and reports whether it matches.
func (m *matcher) scan(rows *sql.Rows, l *light) (bool, error) {
	var queue, flags int64
	var state State
	var fp sql.NullInt64
	var typ string
	var spec []byte
	dst := make([]any, 0, len(l.keys)+7)
	for i := range l.keys {
		dst = append(dst, &l.keys[i])
	}
	if err := rows.Scan(append(dst, &l.id, &queue, &state, &flags, &fp, &typ, &spec)...); err != nil {
		return false, err
	}
	switch {
	case m.queue != 0 && queue != m.queue,
		m.typ != "" && typ != m.typ,
		m.byFP && (!fp.Valid || fp.Int64 != m.fp),
		m.state == StateDead && flags&flagArchived != 0 && !m.archived,
		m.tag != "" && !hasTag(spec, m.tag):
		return false, nil
	}
	return true, nil
}

func hasTag(spec []byte, tag string) bool {
	if len(spec) == 0 {
		return false
	}
	var p policy
	if err := json.Unmarshal(spec, &p); err != nil {
		return false
	}
	if _, ok := p.Tags[tag]; ok {
		return true
	}
	for i := range len(tag) {
		if tag[i] == ':' {
			if v, ok := p.Tags[tag[:i]]; ok && v == tag[i+1:] {
				return true
			}
		}
	}
	return false
}
