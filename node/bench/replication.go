package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	slowPairs     = 3
	storeLatency  = 50 * time.Millisecond // of each request to object storage
	fewProducers  = 64
	manyProducers = 256
	slowTime      = 6 * time.Second // of one measurement
	replicaJobs   = 2 * httpJobs    // long enough for checkpoints to show
)

// replicationSuite measures what the copy in object storage costs: answers that
// do not wait for it, against a node that keeps none; and answers that do, where
// object storage is 50 ms away.
func replicationSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	s, err := openStore(ctx, e)
	if err != nil {
		return err
	}
	defer s.close()
	for _, batch := range []int{1, batchSize} {
		if err := streamingPairs(ctx, e, s, batch, r); err != nil {
			return err
		}
	}
	slow, err := s.slow(ctx, storeLatency)
	if err != nil {
		return err
	}
	if slow != s {
		defer slow.close()
	}
	return replicatedPairs(ctx, e, slow, r)
}

// streamingPairs runs jobs from enqueue to ack, in requests of batch, with the
// stream and without one, by turns.
func streamingPairs(ctx context.Context, e *env, s *store, batch int, r *Report) error {
	jobs := e.jobs
	if jobs == 0 {
		jobs = replicaJobs
	}
	suffix, n := "", pairs
	if batch > 1 {
		suffix, n = "_batch", rounds
		jobs *= 4 // they are that much faster
	}
	var rates [2][]float64
	var ratios []float64
	for i := range n {
		var pair [2]float64
		for j := range pair {
			kind := (i + j) % len(pair)
			v, err := streamed(ctx, e, s, load{jobs: jobs, batch: batch}, kind == 0)
			if err != nil {
				return err
			}
			pair[kind] = v
			rates[kind] = append(rates[kind], v)
		}
		ratios = append(ratios, pair[0]/pair[1])
		e.logf("%d a request %d/%d: with replication %.0f jobs/s, without %.0f", batch, i+1, n, pair[0], pair[1])
	}
	r.Ratios["replicated_on_over_off"+suffix] = median(ratios)
	r.Rates["e2e_replication_on"+suffix] = median(rates[0])
	r.Rates["e2e_replication_off"+suffix] = median(rates[1])
	return nil
}

func streamed(ctx context.Context, e *env, s *store, l load, on bool) (float64, error) {
	start := func() (*server, error) { return startServer(ctx, e, "--no-replica") }
	if on {
		start = func() (*server, error) { return s.start(ctx, e) }
	}
	n, err := start()
	if err != nil {
		return 0, err
	}
	defer n.stop()
	if err := n.warmUp(ctx, l.batch); err != nil {
		return 0, err
	}
	l.s = n
	return l.endToEnd(ctx)
}

// replicatedPairs enqueues from few and from many producers, each of whom waits
// until its job is in object storage. More of them share an upload, so they get
// more done.
func replicatedPairs(ctx context.Context, e *env, s *store, r *Report) error {
	length := slowTime
	if e.jobs > 0 {
		length = slowTime / 6
	}
	producers := [2]int{fewProducers, manyProducers}
	var rates, latencies [2][]float64
	var ratios []float64
	for i := range slowPairs {
		var pair [2]float64
		for j := range producers {
			kind := (i + j) % len(producers)
			v, p50, err := replicatedOnce(ctx, e, s, producers[kind], length)
			if err != nil {
				return err
			}
			pair[kind] = v
			rates[kind], latencies[kind] = append(rates[kind], v), append(latencies[kind], p50)
			e.logf("replicated %d/%d: %d producers %.0f jobs/s, median %.0f ms", i+1, slowPairs, producers[kind], v, p50)
		}
		ratios = append(ratios, pair[1]/pair[0])
	}
	r.Ratios["replicated_256_over_64"] = median(ratios)
	for i, n := range producers {
		r.Rates[fmt.Sprintf("replicated_50ms_%d", n)] = median(rates[i])
	}
	r.Values["replicated_50ms_p50_ms"] = max(median(latencies[0]), median(latencies[1]))
	return nil
}

// replicatedOnce returns the rate of producers on a new node, and their median
// latency in milliseconds.
func replicatedOnce(ctx context.Context, e *env, s *store, producers int, length time.Duration) (v, p50 float64, err error) {
	n, err := s.start(ctx, e)
	if err != nil {
		return 0, 0, err
	}
	defer n.stop()
	if err := n.warmUp(ctx, 1); err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	var all []float64
	start := time.Now()
	err = each(ctx, n.addr, producers, func(_ int, c *conn) error {
		req := newEnqueueRequest(1, "replicated")
		var took []float64
		for time.Since(start) < length {
			req.number(n.keys.Add(1) - 1)
			sent := time.Now()
			if _, err := c.do(req.bytes); err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
			took = append(took, float64(time.Since(sent).Microseconds())/1000)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, took...)
		return nil
	})
	slices.Sort(all)
	return rate(int64(len(all)), start, time.Now()), median(all), err
}
