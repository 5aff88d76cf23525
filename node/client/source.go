package client

import "context"

// Source is where a [Worker] gets its jobs: a [Client], or a queue in the same
// process. Each batch is answered item by item in its order, so that a lost
// lease fails that item alone.
type Source interface {
	// Claim settles req.Acks and req.Fails, then waits up to req.WaitMS for
	// jobs. When ctx ends first, no job may stay claimed.
	Claim(ctx context.Context, req ClaimRequest) (Claims, error)
	Ack(ctx context.Context, acks ...Ack) ([]Result, error)
	Fail(ctx context.Context, fails ...Fail) ([]Result, error)
	Release(ctx context.Context, releases ...Release) ([]Result, error)
	Snooze(ctx context.Context, snoozes ...Snoozing) ([]Result, error)
	Extend(ctx context.Context, extends ...Extend) ([]Result, error)
}
