package bench

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/queue"
)

const (
	pageLooks      = 21 // at each page
	openDashboards = 3
	deadPart       = 10 // of deepRows: 100,000 dead jobs
	deadKinds      = 20 // of errors among them
)

// dashboardSuite measures what the pages of the dashboard take on a node with
// five million finished jobs and a hundred thousand dead ones, and what three
// open dashboards cost those who enqueue.
func dashboardSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, 2*suiteTimeout)
	defer cancel()
	s, err := startWithDead(ctx, e)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.warmUp(ctx, 1); err != nil {
		return err
	}
	for name, path := range map[string]string{"overview_ms": "/", "dead_ms": "/dead", "dead_queue_ms": "/dead?queue=bench", "queue_ms": "/queues/bench"} {
		var took []float64
		for range pageLooks {
			d, err := look(ctx, s, path)
			if err != nil {
				return err
			}
			took = append(took, float64(d.Microseconds())/1000)
		}
		r.Values[name] = median(took)
		e.logf("%s: %.1f ms", path, r.Values[name])
	}
	jobs := e.size(httpJobs)
	ratio, rates, err := e.pairs("enqueue with open dashboards", pairs, [2]func() (float64, error){
		func() (float64, error) { return enqueueWatched(ctx, s, jobs) },
		func() (float64, error) { v, _, err := load{s: s, jobs: jobs, batch: 1}.enqueue(ctx); return v, err },
	})
	if err != nil {
		return err
	}
	r.Ratios["enqueue_with_dashboards_over_without"] = ratio
	r.Rates["enqueue_with_dashboards"], r.Rates["enqueue_without"] = rates[0], rates[1]
	return nil
}

// startWithDead runs a node on a file with finished and dead jobs.
func startWithDead(ctx context.Context, e *env) (*server, error) {
	done := fills(e)[2]
	dir, err := os.MkdirTemp(e.dir, "node-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "holdfast.db")
	if err := done.fill(ctx, path); err != nil {
		return nil, err
	}
	if err := addDead(ctx, path, max(done.rows/5/deadPart, 1)); err != nil {
		return nil, fmt.Errorf("add dead jobs: %w", err)
	}
	return startServerIn(ctx, e, dir, nil, "--no-replica")
}

// addDead puts dead jobs of several kinds behind those that there are. The
// columns are those of queue/schema.
func addDead(ctx context.Context, path string, rows int) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(0)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var next int64
	if err := db.QueryRowContext(ctx, "select next_id from counts where id = 0").Scan(&next); err != nil {
		return err
	}
	for _, step := range []struct {
		text string
		args []any
	}{
		{`with recursive n(i) as (select 0 union all select i+1 from n where i<?1-1)
 insert into jobs(id,state,queue,priority,run_at,at,started_at,worker,run,failures,type,created_at,payload,error_fp)
 select ?2+i,?4,1,0,?3,?3,?3,65536,5,5,1,?3,'{}',1000+i%?5 from n`, []any{rows, next, time.Now().Add(-time.Hour).UnixMilli(), queue.StateDead, deadKinds}},
		{"insert into outcomes(id, last_error) select id, 'smtp ' || error_fp || ' the other side refused' from jobs where id >= ?", []any{next}},
		{"update counts set dead = ? where id = 1", []any{rows}},
		{"update counts set next_id = next_id + ? where id = 0", []any{rows}},
	} {
		if _, err := db.ExecContext(ctx, step.text, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// look loads a page once.
func look(ctx context.Context, s *server, path string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	took := time.Since(start)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "</html>")) {
		err = fmt.Errorf("%s answered %s", path, resp.Status)
	}
	return took, err
}

// enqueueWatched enqueues while dashboards are open.
func enqueueWatched(ctx context.Context, s *server, jobs int) (v float64, err error) {
	open, stop := context.WithCancel(ctx)
	var g errgroup.Group
	for range openDashboards {
		g.Go(func() error {
			err := watch(open, s)
			if open.Err() != nil {
				return nil
			}
			return err
		})
	}
	v, _, err = load{s: s, jobs: jobs, batch: 1}.enqueue(ctx)
	stop()
	if watched := g.Wait(); err == nil {
		err = watched
	}
	return v, err
}

// watch does what an open overview does, in the pace of the page's script.
func watch(ctx context.Context, s *server) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/live", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if lines.Text() != "event: changed" {
			continue
		}
		if _, err := look(ctx, s, "/"); err != nil {
			return err
		}
	}
	return lines.Err()
}
