package tests_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
)

const stormQueue = "storm"

// storm is producers and workers that load a node while it is killed and
// started again, and write down what they were told.
type storm struct {
	url     string
	hc      *http.Client
	history *history
	armed   atomic.Int64   // answers until fired gets one
	fired   chan time.Time // the moment of that answer
}

func newStorm(url string) *storm {
	return &storm{
		url: url, history: newHistory(), fired: make(chan time.Time, 1),
		hc: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
}

// arm makes fired tell of the nth answer from now.
func (s *storm) arm(n int64) { s.armed.Store(n) }

// answered counts an acknowledged answer.
func (s *storm) answered() {
	if s.armed.Add(-1) == 0 {
		s.fired <- time.Now()
	}
}

// run loads the node until ctx ends and every request under way is settled,
// for which the node must be up.
func (s *storm) run(ctx context.Context, producers, workers int) error {
	var g errgroup.Group
	for i := range producers {
		g.Go(func() error { return s.produce(ctx, i) })
	}
	for i := range workers {
		g.Go(func() error { return s.work(ctx, i) })
	}
	err := g.Wait()
	s.hc.CloseIdleConnections()
	return err
}

// settle sends a request until it is answered. resent tells that an earlier
// try may have taken effect. An answer that is neither a success nor "not now"
// is an error: nothing in this load may be refused.
func (s *storm) settle(path string, body, out any) (resent bool, err error) {
	const patience = time.Minute
	for start := time.Now(); time.Since(start) < patience; {
		err = call(s.hc, http.MethodPost, s.url+path, body, out)
		if err == nil {
			s.answered()
			return resent, nil
		}
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable {
			return resent, fmt.Errorf("%s: %w", path, err)
		}
		resent = true
		time.Sleep(5 * time.Millisecond)
	}
	return resent, fmt.Errorf("%s: no answer within %s: %w", path, patience, err)
}

// produce enqueues jobs, one or a few at a time.
func (s *storm) produce(ctx context.Context, producer int) error {
	for n := 0; ctx.Err() == nil; n++ {
		specs := make([]client.Spec, 1+rand.IntN(3)*rand.IntN(3))
		for i := range specs {
			key := fmt.Sprintf("%d-%d-%d", producer, n, i)
			specs[i] = client.Spec{Queue: stormQueue, IdempotencyKey: key, Payload: []byte(`{"key":"` + key + `"}`)}
		}
		var batch client.EnqueuedBatch
		if _, err := s.settle("/v1/jobs", specs, &batch); err != nil {
			return err
		}
		if len(batch.Jobs) != len(specs) {
			return fmt.Errorf("%d jobs for %d specs", len(batch.Jobs), len(specs))
		}
		for i, job := range batch.Jobs {
			s.history.sawEnqueue(specs[i].IdempotencyKey, job.ID)
		}
	}
	return nil
}

// work claims jobs and acks them with the next claim. Now and then it forgets
// a job, as a worker does that dies.
func (s *storm) work(ctx context.Context, worker int) error {
	req := client.ClaimRequest{Queues: []string{stormQueue}, Worker: fmt.Sprintf("storm:%d", worker), LeaseMS: 2000}
	var held []client.Claimed
	for ctx.Err() == nil {
		req.Max, req.WaitMS, req.Acks = 1+rand.IntN(4), 100, nil
		for _, job := range held {
			req.Acks = append(req.Acks, client.Ack{Lease: job.Lease})
		}
		var claims client.Claims
		if _, err := s.settle("/v1/claims", req, &claims); err != nil {
			return err
		}
		s.sawAcks(held, claims.Acks)
		held = held[:0]
		for _, job := range claims.Jobs {
			s.history.sawClaim(job.ID, job.Run)
			if rand.IntN(50) > 0 {
				held = append(held, job)
			}
		}
	}
	return nil
}

// sawAcks writes down the acks that were taken. One that was not is no broken
// promise: an earlier try whose answer was lost may have been, or the lease
// ended while the node was down.
func (s *storm) sawAcks(held []client.Claimed, results []client.Result) {
	for i, result := range results {
		if i < len(held) && result.OK {
			s.history.sawAck(held[i].ID, held[i].Run)
		}
	}
}
