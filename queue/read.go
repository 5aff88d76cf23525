package queue

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	readers     = 4               // connections that read
	readTimeout = 5 * time.Second // no reader holds a snapshot longer: it would keep the WAL from starting again
)

// view runs f on one snapshot of the file.
func (q *Queue) view(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	q.mu.RLock()
	if q.closed {
		q.mu.RUnlock()
		return ErrClosed
	}
	q.reads.Add(1) // Close waits for it
	q.mu.RUnlock()
	defer q.reads.Done()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	tx, err := q.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return f(ctx, tx)
}

// eachOf calls f for each row that a statement returns.
func eachOf(ctx context.Context, tx *sql.Tx, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Job returns a job with its payload and its runs. Errors: ErrNotFound,
// ErrClosed, ctx.Err().
func (q *Reader) Job(ctx context.Context, id int64) (Job, error) {
	var j Job
	err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		jobs, err := jobsByID(ctx, tx, []int64{id}, true)
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			return ErrNotFound
		}
		j = jobs[0]
		j.Runs, err = runsOf(ctx, tx, id)
		return err
	})
	return j, err
}

const jobColumns = `select j.id, q.name, t.name, j.state, j.priority, j.run_at, j.at, j.started_at, w.name, j.run, j.failures, j.crashes, j.interruptions,
 j.flags, j.created_at, j.expires_at, j.error_fp, j.archived_at, j.spec, q.settings, o.last_error, o.result, o.progress`

// jobsByID reads jobs in the order of ids. Ids that are not there are left out.
func jobsByID(ctx context.Context, tx *sql.Tx, ids []int64, payload bool) ([]Job, error) {
	column := ", null"
	if payload {
		column = ", coalesce(j.payload, (select data from payloads p where p.id = j.id))"
	}
	jobs := make([]Job, 0, len(ids))
	for chunk := range slices.Chunk(ids, 500) {
		args := make([]any, len(chunk))
		for i, id := range chunk {
			args[i] = id
		}
		rows, err := tx.QueryContext(ctx, jobColumns+column+` from jobs j join queues q on q.id = j.queue join types t on t.id = j.type
 join workers w on w.id = j.worker left join outcomes o on o.id = j.id where j.id in (?`+strings.Repeat(",?", len(args)-1)+`)`, args...)
		if err != nil {
			return nil, err
		}
		if jobs, err = appendJobs(jobs, rows); err != nil {
			return nil, err
		}
	}
	place := make(map[int64]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(jobs, func(a, b Job) int { return place[a.ID] - place[b.ID] })
	return jobs, nil
}

func appendJobs(jobs []Job, rows *sql.Rows) ([]Job, error) {
	defer rows.Close()
	for rows.Next() {
		j, err := scanJob(rows)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

func scanJob(rows *sql.Rows) (Job, error) {
	var j Job
	var runAt, at, started, flags, created int64
	var expires, fp, archived sql.NullInt64
	var spec, set []byte
	var lastError sql.NullString
	if err := rows.Scan(&j.ID, &j.Queue, &j.Type, &j.State, &j.Priority, &runAt, &at, &started, &j.Worker, &j.Run, &j.Failures, &j.Crashes,
		&j.Interruptions, &flags, &created, &expires, &fp, &archived, &spec, &set, &lastError,
		(*[]byte)(&j.Result), (*[]byte)(&j.Progress), (*[]byte)(&j.Payload)); err != nil {
		return j, err
	}
	s, err := parseSettings(set)
	if err != nil {
		return j, fmt.Errorf("settings of queue %s: %w", j.Queue, err)
	}
	p := policyOf(spec, &s)
	j.MaxAttempts, j.Timeout, j.Backoff, j.Tags = p.MaxAttempts, p.Timeout, p.Backoff, p.Tags
	j.Traceparent = p.Traceparent
	j.RunAt, j.StartedAt, j.CreatedAt = fromMS(runAt), fromMS(started), fromMS(created)
	j.ExpiresAt, j.ArchivedAt = fromMS(expires.Int64), fromMS(archived.Int64)
	j.CancelRequested, j.LastError = flags&flagCancel != 0, lastError.String
	if fp.Valid {
		j.ErrorFP = formatFingerprint(fp.Int64)
	}
	switch {
	case j.State == StateRunning:
		j.LeaseUntil = fromMS(at)
	case j.State.Final():
		j.FinishedAt = fromMS(at)
	}
	return j, nil
}

func runsOf(ctx context.Context, tx *sql.Tx, id int64) ([]Run, error) {
	rows, err := tx.QueryContext(ctx, `select r.run, r.started_at, r.ended_at, r.outcome, w.name, coalesce(r.error, '')
 from job_runs r join workers w on w.id = r.worker where r.job=? order by r.run`, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var runs []Run
	for rows.Next() {
		var r Run
		var started, ended int64
		if err := rows.Scan(&r.Run, &started, &ended, &r.Outcome, &r.Worker, &r.Error); err != nil {
			return nil, err
		}
		r.StartedAt, r.EndedAt = fromMS(started), fromMS(ended)
		runs = append(runs, r)
	}
	return runs, rows.Err()
}

// QueuesOf returns the names of the queues of jobs, by their ids. Jobs that are
// not there are left out. Errors: ErrClosed, ctx.Err().
func (q *Reader) QueuesOf(ctx context.Context, jobs []int64) (map[int64]string, error) {
	out := make(map[int64]string, len(jobs))
	err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for chunk := range slices.Chunk(jobs, 500) {
			if err := eachOf(ctx, tx, func(rows *sql.Rows) error {
				var id int64
				var name string
				err := rows.Scan(&id, &name)
				out[id] = name
				return err
			}, "select j.id, q.name from jobs j join queues q on q.id = j.queue where j.id in (?"+strings.Repeat(",?", len(chunk)-1)+")", ids(chunk)...); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Queues returns every queue, by name. Errors: ErrClosed, ctx.Err().
func (q *Reader) Queues(ctx context.Context) ([]Info, error) { return q.queues(ctx, "") }

// queues returns the queue of a name, or all.
func (q *Reader) queues(ctx context.Context, name string) ([]Info, error) {
	var out []Info
	err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `select h.queue, h.paused, q.settings, c.blocked, h.scheduled, h.queued, h.running, h.done, h.dead,
 h.cancelled, h.oldest_queued_at_ms, coalesce(h.last_error, ''), h.last_error_at_ms
 from queue_health h join queues q on q.name = h.queue join counts c on c.id = q.id where ?1 in ('', h.queue) order by h.queue`, name)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			i, err := scanInfo(rows)
			if err != nil {
				return err
			}
			out = append(out, i)
		}
		return rows.Err()
	})
	return out, err
}

func scanInfo(rows *sql.Rows) (Info, error) {
	var i Info
	var text []byte
	var oldest, failed sql.NullInt64
	c := &i.Counts
	if err := rows.Scan(&i.Name, &i.Paused, &text, &c.Blocked, &c.Scheduled, &c.Queued, &c.Running, &c.Done, &c.Dead, &c.Cancelled,
		&oldest, &i.LastError, &failed); err != nil {
		return i, err
	}
	s, err := parseSettings(text)
	if err != nil {
		return i, fmt.Errorf("settings of queue %s: %w", i.Name, err)
	}
	i.Settings = s.public()
	i.OldestAt, i.LastErrorAt = fromMS(oldest.Int64), fromMS(failed.Int64)
	return i, nil
}

// Minute is what a queue did in a minute.
type Minute struct {
	Queue                        string
	At                           time.Time // its beginning
	Enqueued, Done, Failed, Dead int64
}

// throughputSince is the view throughput, with a seek for each queue instead of a
// walk through its last 30 days.
const throughputSince = `select queue, 60000 * minute, sum(enqueued), sum(done), sum(failed), sum(dead) from (
 select q.name as queue, m.minute, m.enqueued, m.done, m.failed, m.dead from queues q cross join minutes m on m.queue = q.id and m.minute >= ?2
  where ?1 in ('', q.name)
 union all select q.name, c.minute, c.m_in, c.m_out, c.m_failed, c.m_dead from queues q join counts c on c.id = q.id
  where ?1 in ('', q.name) and c.minute > 0 and c.minute >= ?2)
 group by minute, queue order by minute, queue`

// Throughput returns the minutes since a time in which a queue (empty: any)
// did something, oldest first. They are kept for 30 days.
//
// Errors: ErrClosed, ctx.Err().
func (q *Reader) Throughput(ctx context.Context, queue string, since time.Time) ([]Minute, error) {
	var out []Minute
	err := q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, throughputSince, queue, (since.UnixMilli()+59_999)/60_000)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m Minute
			var at int64
			if err := rows.Scan(&m.Queue, &at, &m.Enqueued, &m.Done, &m.Failed, &m.Dead); err != nil {
				return err
			}
			m.At = time.UnixMilli(at)
			out = append(out, m)
		}
		return rows.Err()
	})
	return out, err
}
