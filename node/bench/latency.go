package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	pace          = 100              // jobs a second
	paceTime      = 10 * time.Second // of a measurement
	paceWorkers   = 4
	idleWaiters   = 1000
	idleTime      = 10 * time.Second
	fillBatch     = 100
	restarts      = 5
	firstJobLimit = 30 * time.Second
)

// latencySuite measures what a person feels and pays for: how long a job waits
// at 100 jobs a second, what waiting workers cost, how much memory a node takes,
// and how soon it hands out a job after a crash.
func latencySuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	info, err := os.Stat(e.exe)
	if err != nil {
		return err
	}
	r.Values["binary_mb"] = mebibytes(info.Size())
	for _, measure := range []func(context.Context, *env, *Report) error{paced, waiters, idleMemory, fullMemory} {
		if err := measure(ctx, e, r); err != nil {
			return err
		}
	}
	return nil
}

// small is whether the run shall be short.
func (e *env) small() bool { return e.jobs > 0 && e.jobs < httpJobs }

// paced enqueues a job every 10 ms and measures how long after it was sent a
// waiting worker has it.
func paced(ctx context.Context, e *env, r *Report) error {
	s, err := startServer(ctx, e)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.warmUp(ctx, 1); err != nil {
		return err
	}
	jobs := pace * int(paceTime/time.Second)
	if e.small() {
		jobs = min(jobs, e.jobs)
	}
	sent := make([]time.Time, jobs)
	took := make([]float64, jobs) // ms; 0: not yet
	var mu sync.Mutex             // of both
	left := jobs
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return each(ctx, s.addr, 1, func(_ int, c *conn) error {
			req := newEnqueueRequest(1, "")
			start := time.Now()
			for i := range jobs {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / pace)))
				req.number(int64(1_000_000 + i))
				mu.Lock()
				sent[i] = time.Now()
				mu.Unlock()
				body := bytes.Replace(req.bytes, []byte(`"payload":"xxxxxxx`), fmt.Appendf(nil, `"payload":"%07d`, i), 1)
				if _, err := c.do(body); err != nil {
					return fmt.Errorf("enqueue: %w", err)
				}
			}
			return nil
		})
	})
	g.Go(func() error {
		return each(ctx, s.addr, paceWorkers, func(i int, c *conn) error {
			w := newWorker(c, i, 1, 500*time.Millisecond)
			for {
				if _, err := w.next(); err != nil {
					return err
				}
				now := time.Now()
				mu.Lock()
				if n, ok := payloadNumber(c.body); ok && n < jobs {
					took[n] = float64(now.Sub(sent[n]).Microseconds()) / 1000
					left--
				}
				over := left == 0
				mu.Unlock()
				if over {
					_, err := w.finish()
					return err
				}
			}
		})
	})
	if err := g.Wait(); err != nil {
		return err
	}
	slices.Sort(took)
	r.Values["p50_ms"], r.Values["p99_ms"] = took[jobs/2], took[jobs*99/100]
	e.logf("%d jobs a second: half of them within %.2f ms, 99 %% within %.2f ms", pace, took[jobs/2], took[jobs*99/100])
	return nil
}

// payloadNumber is the number that a claimed job's payload begins with.
func payloadNumber(answer []byte) (int, bool) {
	_, rest, ok := bytes.Cut(answer, []byte(`"payload":"`))
	if !ok || len(rest) < 7 {
		return 0, false
	}
	n, err := strconv.Atoi(string(rest[:7]))
	return n, err == nil
}

// waiters measures the CPU time that a node spends on a thousand workers that
// wait for jobs.
func waiters(ctx context.Context, e *env, r *Report) error {
	s, err := startServer(ctx, e)
	if err != nil {
		return err
	}
	defer s.stop()
	length := idleTime
	if e.small() {
		length = time.Second
	}
	waiting, hangUp := context.WithCancel(ctx)
	defer hangUp()
	var g errgroup.Group
	g.Go(func() error {
		err := each(waiting, s.addr, idleWaiters, func(i int, c *conn) error {
			w := newWorker(c, i, 1, time.Minute)
			for {
				if _, err := w.next(); err != nil {
					return err
				}
			}
		})
		if waiting.Err() != nil { // which closed the connections
			return nil
		}
		return err
	})
	pause(ctx, 2*time.Second) // until all wait
	before, err := cpuTime(s.cmd.Process.Pid)
	if err == nil {
		pause(ctx, length)
		var after time.Duration
		after, err = cpuTime(s.cmd.Process.Pid)
		r.Values["waiters_1000_cpu_percent"] = math.Round(10_000*float64(after-before)/float64(length)) / 100
		e.logf("%d waiting workers: %.2f %% of a CPU", idleWaiters, r.Values["waiters_1000_cpu_percent"])
	}
	hangUp()
	return errors.Join(g.Wait(), err, ctx.Err())
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// idleMemory measures a node that has run a few jobs and rests, without and
// with a replica in a bucket.
func idleMemory(ctx context.Context, e *env, r *Report) error {
	store, err := openStore(ctx, e)
	if err != nil {
		return err
	}
	defer store.close()
	for key, start := range map[string]func() (*server, error){
		"rss_idle_mb":    func() (*server, error) { return startServer(ctx, e) },
		"rss_idle_s3_mb": func() (*server, error) { return store.start(ctx, e) },
	} {
		s, err := start()
		if err != nil {
			return err
		}
		err = s.idle(ctx, r, key)
		s.stop()
		if err != nil {
			return err
		}
		e.logf("%s: %.1f", key, r.Values[key])
	}
	return nil
}

// idle notes the memory of a node that was given a few jobs and then rests.
func (s *server) idle(ctx context.Context, r *Report, key string) error {
	err := each(ctx, s.addr, 1, func(_ int, c *conn) error {
		req := newEnqueueRequest(1, "")
		for i := range fillBatch {
			req.number(int64(i))
			if _, err := c.do(req.bytes); err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	pause(ctx, 3*time.Second) // uploads
	return s.resident(r, key)
}

// resident notes the memory of a node.
func (s *server) resident(r *Report, key string) error {
	bytes, err := residentBytes(s.cmd.Process.Pid)
	r.Values[key] = mebibytes(bytes)
	return err
}

// mebibytes is what the keys that end in _mb mean.
func mebibytes(bytes int64) float64 { return math.Round(float64(bytes)/(1<<20)*100) / 100 }

// fullMemory measures a node that was given a million jobs, kills it, and
// measures how soon after its start it hands one out.
func fullMemory(ctx context.Context, e *env, r *Report) error {
	s, err := startServer(ctx, e, "--no-replica")
	if err != nil {
		return err
	}
	defer func() { s.stop() }()
	rows := deepRows
	if e.small() {
		rows = min(deepRows, 20*e.jobs)
	}
	start := time.Now()
	_, n, err := load{s: s, jobs: rows, batch: fillBatch, patience: 2 * time.Minute}.enqueue(ctx)
	if err != nil {
		return err
	}
	e.logf("%d of %d jobs queued in %s", n, rows, time.Since(start).Round(100*time.Millisecond))
	if n < rows {
		return fmt.Errorf("%d jobs were queued in time, not %d", n, rows)
	}
	if err := s.resident(r, "rss_1m_mb"); err != nil {
		return err
	}
	var times []float64
	for range restarts {
		s.kill()
		began := time.Now()
		next, err := launchServer(ctx, e, s.dir, nil, "--no-replica")
		if err != nil {
			return err
		}
		s = next
		if err := s.firstJob(ctx); err != nil {
			return err
		}
		times = append(times, float64(time.Since(began).Microseconds())/1000)
	}
	r.Values["restart_1m_ms"] = median(times)
	e.logf("memory %.1f MB, first job %.1f ms after the start", r.Values["rss_1m_mb"], r.Values["restart_1m_ms"])
	return nil
}

// firstJob returns when the node has handed out a job.
func (s *server) firstJob(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstJobLimit)
	defer cancel()
	request := renderPost("/v1/claims", []byte(`{"queues":["bench"],"worker":"bench"}`))
	for {
		c, err := dialConn(ctx, s.addr)
		if err == nil {
			var answer []byte
			answer, err = c.do(request)
			c.close()
			if err == nil && bytes.Contains(answer, []byte(`"lease"`)) {
				return nil
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("the process ended: %s", s.log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(time.Millisecond):
		}
	}
}
