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
	jobs := e.size(httpJobs)
	if err := enqueuePairs(ctx, e, jobs, r); err != nil {
		return err
	}
	if err := memoryPairs(ctx, e, jobs, r); err != nil {
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
	ratio, rates, err := e.pairs("enqueue, a commit each", pairs, [2]func() (float64, error){
		func() (float64, error) { return enqueueAlone(ctx, e, jobs) },
		func() (float64, error) { return enqueueAlone(ctx, e, jobs, "--max-round", "1") },
	})
	if err != nil {
		return err
	}
	r.Ratios["enqueue_over_naive"] = ratio
	r.Rates["enqueue"], r.Rates["enqueue_naive"] = rates[0], rates[1]
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

// memoryPairs runs jobs from end to end, one a request, against ours and
// against the same binary and routes over a store in memory.
func memoryPairs(ctx context.Context, e *env, jobs int, r *Report) error {
	ratio, rates, err := e.pairs("single requests, in memory", pairs, [2]func() (float64, error){
		func() (float64, error) { return endToEndOnce(ctx, e, load{jobs: jobs, batch: 1}) },
		func() (float64, error) { return endToEndOnce(ctx, e, load{jobs: jobs, batch: 1}, "--memory") },
	})
	if err != nil {
		return err
	}
	r.Ratios["http_single_over_nosqlite"] = ratio
	r.Rates["e2e_nosqlite"] = rates[1]
	return nil
}

// pairs measures ours and a yardstick in turns, the first of a pair by turns
// too. It returns the median ratio and the median rates.
func (e *env) pairs(what string, n int, measure [2]func() (float64, error)) (ratio float64, rates [2]float64, err error) {
	var all [2][]float64
	var ratios []float64
	for i := range n {
		var pair [2]float64
		for j := range pair {
			kind := (i + j) % len(pair)
			if pair[kind], err = measure[kind](); err != nil {
				return 0, rates, err
			}
			all[kind] = append(all[kind], pair[kind])
		}
		ratios = append(ratios, pair[0]/pair[1])
		e.logf("%s %d/%d: %.0f jobs/s, the yardstick %.0f", what, i+1, n, pair[0], pair[1])
	}
	return median(ratios), [2]float64{median(all[0]), median(all[1])}, nil
}

// endToEndOnce measures a load on a new server.
func endToEndOnce(ctx context.Context, e *env, l load, args ...string) (float64, error) {
	s, err := startServer(ctx, e, args...)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.warmUp(ctx, l.batch); err != nil {
		return 0, err
	}
	l.s = s
	return l.endToEnd(ctx)
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
