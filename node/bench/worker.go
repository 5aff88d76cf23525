package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"holdfast/node/client"
)

const workerJobs = 20_000

// workerSuite measures what our Go worker gets done, which claims and acks in
// batches by itself, against 64 loops that claim one job and ack it, each on a
// connection of its own. It has 64 handlers and holds as many jobs ready for
// them, as is right for jobs that take no time.
func workerSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	jobs := e.size(workerJobs)
	ratio, rates, err := e.pairs("worker, single loops", pairs, [2]func() (float64, error){
		func() (float64, error) { return filledOnce(ctx, e, jobs, runWorker) },
		func() (float64, error) { return filledOnce(ctx, e, jobs, singleLoops) },
	})
	if err != nil {
		return err
	}
	r.Ratios["worker_over_single"] = ratio
	r.Rates["worker"], r.Rates["single_loops"] = rates[0], rates[1]
	return nil
}

// filledOnce runs process on a new server that holds jobs.
func filledOnce(ctx context.Context, e *env, jobs int, process func(context.Context, *server, int) (float64, error)) (float64, error) {
	s, err := startServer(ctx, e)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	if err := s.warmUp(ctx, batchSize); err != nil {
		return 0, err
	}
	_, n, err := load{s: s, jobs: jobs, batch: batchSize}.enqueue(ctx)
	if err != nil {
		return 0, err
	}
	return process(ctx, s, n)
}

func runWorker(ctx context.Context, s *server, jobs int) (float64, error) {
	api, err := client.New("http://"+s.addr, client.Options{})
	if err != nil {
		return 0, err
	}
	defer api.Close()
	running, stop := context.WithTimeout(ctx, 2*defaultPatience)
	defer stop()
	var done atomic.Int64
	start := time.Now()
	worker, err := client.NewWorker(api, client.WorkerOptions{
		Queues: []string{"bench"}, Concurrency: connections, Prefetch: connections,
		Default: func(context.Context, client.Claimed) (any, error) {
			if done.Add(1) == int64(jobs) {
				stop()
			}
			return nil, nil
		},
	})
	if err != nil {
		return 0, err
	}
	if err := worker.Run(running); err != nil {
		return 0, err
	}
	return rate(done.Load(), start, time.Now()), ctx.Err() // the acks of the last jobs are in it
}

// singleLoops claims and acks one job at a time, each in a request of its own.
func singleLoops(ctx context.Context, s *server, jobs int) (float64, error) {
	var done atomic.Int64
	start := time.Now()
	l := load{}
	err := each(ctx, s.addr, connections, func(i int, c *conn) error {
		w := newWorker(c, i, 1, 0)
		for l.patient(start) {
			if _, err := w.next(); err != nil {
				return err
			}
			if len(w.leases) == 0 {
				return nil
			}
			n, err := w.finish()
			if err != nil {
				return err
			}
			w.leases = w.leases[:0]
			done.Add(int64(n))
		}
		return nil
	})
	if err == nil && done.Load() == 0 {
		err = errors.New("no job was done")
	}
	if err != nil {
		return 0, fmt.Errorf("single loops: %w", err)
	}
	return rate(done.Load(), start, time.Now()), nil
}
