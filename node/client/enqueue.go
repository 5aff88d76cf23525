package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

const enqueueTries = 5 // over about two seconds, as long as a node takes to restart

// Enqueue adds jobs, all or none. It gives an idempotency key to each spec that
// has none, which makes it safe to send the request again when the connection
// breaks or the node is not ready; it does so a few times while ctx lives.
//
// Errors: *Error, such as ErrIdempotencyConflict, *UnreachableError, ctx.Err().
func (c *Client) Enqueue(ctx context.Context, specs ...Spec) ([]Enqueued, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	specs = slices.Clone(specs)
	made := make([]bool, len(specs))
	now := time.Now()
	for i := range specs {
		if specs[i].IdempotencyKey == "" {
			specs[i].IdempotencyKey = newKey(now)
			made[i] = true
		}
	}
	jobs, err := c.enqueueTries(ctx, specs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	for i := range jobs {
		// Nobody else has a key that was made here: what it found is the job of
		// an earlier try of this very call.
		if made[i] {
			jobs[i].Duplicate = false
		}
	}
	return jobs, nil
}

func (c *Client) enqueueTries(ctx context.Context, specs []Spec) ([]Enqueued, error) {
	for try := 1; ; try++ {
		jobs, err := c.enqueueOnce(ctx, specs)
		if err == nil {
			c.resend.enqueued(specs)
		}
		if err == nil || !Temporary(err) || try == enqueueTries {
			return jobs, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(retryDelay(try)):
		}
	}
}

func (c *Client) enqueueOnce(ctx context.Context, specs []Spec) ([]Enqueued, error) {
	req := call{method: http.MethodPost, path: "/v1/jobs", body: specs}
	if len(specs) == 1 {
		// The single form names a wrong field without "jobs[0]" in front.
		req.body = specs[0]
		var one Enqueued
		if err := c.do(ctx, req, &one); err != nil {
			return nil, err
		}
		return []Enqueued{one}, nil
	}
	var many EnqueuedBatch
	if err := c.do(ctx, req, &many); err != nil {
		return nil, err
	}
	if len(many.Jobs) != len(specs) {
		return nil, fmt.Errorf("%d jobs were sent, %d answered", len(specs), len(many.Jobs))
	}
	return many.Jobs, nil
}

// retryDelay is how long to wait after the n-th failed try, from 1: about
// 100 ms, doubled each time up to 5 s. A random half keeps clients apart that
// lost the same node.
func retryDelay(n int) time.Duration {
	d := min(100*time.Millisecond<<min(n-1, 10), 5*time.Second)
	return d/2 + rand.N(d/2+1)
}
