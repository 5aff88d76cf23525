package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"holdfast/queue"
)

const (
	depthJobs     = 8_000
	depthPatience = 2 * time.Second // six servers, two kinds of request, five pairs
	deepRows      = 1_000_000
)

// A filled queue holds rows jobs in a state, ahead of all that come. The states
// and columns are those of queue/schema, as the file is filled by SQL: by
// requests it would take longer than the suite may.
type filled struct {
	name     string
	rows     int
	state    queue.State
	priority int
	at       time.Duration // due or finished so long from now; 0: neither
}

func fills(e *env) []filled {
	rows := deepRows
	if e.jobs > 0 {
		rows = min(deepRows, 20*e.jobs)
	}
	return []filled{
		{"depth_1m_over_empty", rows, queue.StateQueued, 0, 0},
		{"delayed_1m_over_empty", rows, queue.StateScheduled, 10, 365 * 24 * time.Hour},
		{"finished_5m_over_empty", 5 * rows, queue.StateDone, 0, -time.Second},
	}
}

// depthSuite measures what it costs a queue to hold many jobs: it runs a load
// from end to end against an empty queue, and against one that holds a million
// waiting, delayed or five million finished ones.
func depthSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	for _, f := range fills(e) {
		if err := deepPairs(ctx, e, f, r); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

func deepPairs(ctx context.Context, e *env, f filled, r *Report) error {
	deep, err := f.start(ctx, e)
	if err != nil {
		return err
	}
	defer deep.stop()
	empty, err := startServer(ctx, e, "--no-replica")
	if err != nil {
		return err
	}
	defer empty.stop()
	for suffix, batch := range map[string]int{"": 1, "_batch": batchSize} {
		measure := func(s *server) func() (float64, error) {
			return func() (float64, error) {
				jobs := e.size(depthJobs)
				if batch > 1 && e.jobs == 0 {
					jobs *= 4 // they are that much faster
				}
				return load{s: s, jobs: jobs, batch: batch, patience: depthPatience}.endToEnd(ctx)
			}
		}
		for _, s := range []*server{deep, empty} {
			if err := s.warmUp(ctx, batch); err != nil {
				return err
			}
		}
		ratio, rates, err := e.pairs(fmt.Sprintf("%s, %d a request", f.name, batch), pairs, [2]func() (float64, error){measure(deep), measure(empty)})
		if err != nil {
			return err
		}
		r.Ratios[f.name+suffix] = ratio
		r.Rates[f.name[:len(f.name)-len("_over_empty")]+suffix] = rates[0]
	}
	return nil
}

// start runs a node on a filled file.
func (f filled) start(ctx context.Context, e *env) (*server, error) {
	dir, err := os.MkdirTemp(e.dir, "node-")
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := f.fill(ctx, filepath.Join(dir, "holdfast.db")); err != nil {
		return nil, err
	}
	e.logf("%d jobs %s, made in %s", f.rows, f.state, time.Since(start).Round(100*time.Millisecond))
	return startServerIn(ctx, e, dir, nil, "--no-replica")
}

func (f filled) fill(ctx context.Context, path string) error {
	q, err := queue.Open(ctx, path, queue.Options{})
	if err != nil {
		return err
	}
	// Makes the names that the rows refer to by the number 1.
	made, _, err := q.Enqueue(ctx, queue.Spec{Queue: "bench", Type: "bench", Payload: benchPayload()})
	if err == nil {
		_, err = q.Delete(ctx, made[0].ID)
	}
	if err = errors.Join(err, q.Close()); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(0)&_pragma=journal_mode(memory)&_pragma=cache_size(-262144)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	const none = 1 << 40
	now := time.Now().UnixMilli()
	runAt, at := now, int64(none)
	if f.at != 0 {
		at = now + f.at.Milliseconds()
	}
	if f.state == queue.StateScheduled {
		runAt = at
	}
	column := map[queue.State]string{queue.StateQueued: "queued", queue.StateScheduled: "scheduled", queue.StateDone: "done"}[f.state]
	for _, step := range []struct {
		text string
		args []any
	}{
		{`with recursive n(i) as (select 1 union all select i+1 from n where i<?)
 insert into jobs(id,state,queue,priority,run_at,at,started_at,worker,flags,type,created_at,payload)
 select ?+i,?,1,?,?,?,1099511627776,65536,0,1,?,? from n`, []any{f.rows, made[0].ID, f.state, f.priority, runAt, at, now, string(benchPayload())}},
		{"update counts set " + column + "=? where id=1", []any{f.rows}},
		{"update counts set next_id=next_id+? where id=0", []any{f.rows}},
		{"pragma journal_mode=wal", nil},
	} {
		if _, err := db.ExecContext(ctx, step.text, step.args...); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}
