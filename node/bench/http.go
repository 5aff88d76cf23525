package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	pairs        = 5
	rounds       = 3     // of what has no yardstick
	httpJobs     = 20000 // of one measurement
	warmUpJobs   = 640
	batchSize    = 32
	suiteTimeout = 5 * time.Minute
)

// httpSuite measures the HTTP API on 64 raw connections. The yardstick of
// enqueue is the same binary with one transaction a request: what a server
// does that puts a handler in front of SQLite and fsyncs before it answers.
func httpSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	jobs := e.jobs
	if jobs == 0 {
		jobs = httpJobs
	}
	if err := enqueuePairs(ctx, e, jobs, r); err != nil {
		return err
	}
	for _, batch := range []int{1, batchSize} {
		if err := jobLife(ctx, e, jobs, batch, r); err != nil {
			return err
		}
	}
	return nil
}

// enqueuePairs runs enqueue against ours and against the naive server in
// turns, the first of a pair by turns too.
func enqueuePairs(ctx context.Context, e *env, jobs int, r *Report) error {
	kinds := [2][]string{nil, {"--max-round", "1"}}
	var rates [2][]float64
	var ratios []float64
	for i := range pairs {
		var pair [2]float64
		for j := range kinds {
			kind := (i + j) % len(kinds)
			v, err := enqueueAlone(ctx, e, jobs, kinds[kind]...)
			if err != nil {
				return err
			}
			pair[kind] = v
			rates[kind] = append(rates[kind], v)
		}
		ratios = append(ratios, pair[0]/pair[1])
		e.logf("enqueue %d/%d: %.0f jobs/s, naive %.0f", i+1, pairs, pair[0], pair[1])
	}
	r.Ratios["enqueue_over_naive"] = median(ratios)
	r.Rates["enqueue"] = median(rates[0])
	r.Rates["enqueue_naive"] = median(rates[1])
	return nil
}

// enqueueAlone measures enqueue on a new server.
func enqueueAlone(ctx context.Context, e *env, jobs int, args ...string) (float64, error) {
	s, err := startServer(ctx, e, args...)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.warmUp(ctx, 1); err != nil {
		return 0, err
	}
	v, _, err := load{s: s, jobs: jobs, batch: 1}.enqueue(ctx)
	return v, err
}

// jobLife measures enqueue, process and both at once in requests of batch
// jobs.
func jobLife(ctx context.Context, e *env, jobs, batch int, r *Report) error {
	suffix := ""
	if batch > 1 {
		suffix = fmt.Sprintf("_%d", batch)
	}
	var enqueue, process, both []float64
	for i := range rounds {
		v, err := lifeOnce(ctx, e, jobs, batch)
		if err != nil {
			return err
		}
		enqueue, process, both = append(enqueue, v[0]), append(process, v[1]), append(both, v[2])
		e.logf("%d a request %d/%d: enqueue %.0f jobs/s, process %.0f, end to end %.0f", batch, i+1, rounds, v[0], v[1], v[2])
	}
	if batch > 1 {
		r.Rates["enqueue"+suffix] = median(enqueue)
	}
	r.Rates["process"+suffix] = median(process)
	r.Rates["e2e"+suffix] = median(both)
	return nil
}

// lifeOnce returns the rates of enqueue, process and both on a new server.
func lifeOnce(ctx context.Context, e *env, jobs, batch int) (v [3]float64, err error) {
	s, err := startServer(ctx, e)
	if err != nil {
		return v, err
	}
	defer s.stop()
	if err := s.warmUp(ctx, batch); err != nil {
		return v, err
	}
	l := load{s: s, jobs: jobs, batch: batch}
	if v[0], _, err = l.enqueue(ctx); err != nil {
		return v, err
	}
	if v[1], err = l.process(ctx); err != nil {
		return v, err
	}
	v[2], err = l.endToEnd(ctx)
	return v, err
}

// warmUp runs a few jobs through s, so that a measurement begins with open
// files, prepared statements and a grown heap. It leaves the queue empty.
func (s *server) warmUp(ctx context.Context, batch int) error {
	l := load{s: s, jobs: warmUpJobs, batch: batch}
	if _, err := l.endToEnd(ctx); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}
