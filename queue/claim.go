package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Claim settles req.Acks and req.Fails, then hands out up to req.Max jobs,
// waiting up to req.Wait for the first. Several queues are tried in the order
// given, but each that has jobs comes first in one claim out of twenty. An
// empty answer is no error. When ctx ends while it waits, no job is lost:
// Claim returns ctx.Err(), and what the acks and fails did stands.
//
// Errors: *SpecError, *TooLargeError, ErrDiskFull, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Claim(ctx context.Context, req ClaimRequest) (Claims, Seq, error) {
	if err := req.validate(); err != nil {
		return Claims{}, Seq{}, err
	}
	c := &claim{
		queues: q.turns.order(req.Queues), max: max(req.Max, 1), lease: req.Lease, worker: req.Worker, waits: req.Wait > 0, answered: make(chan struct{}),
	}
	o := &op{claim: c}
	q.addAcks(o, req.Acks)
	q.addFails(o, req.Fails)
	if q.drained() {
		c.leave(claimLeft)
	}
	if err := q.do(ctx, o); err != nil {
		return Claims{}, Seq{}, err
	}
	results, seq := o.results(), q.seq(o)
	out := Claims{Acks: results[:len(req.Acks)], Fails: results[len(req.Acks):]}
	if err := q.await(ctx, c, req.Wait); err != nil {
		return Claims{}, seq, err
	}
	if c.state.Load() == claimAnswered {
		out.Jobs, seq.N = c.jobs, c.seq
		for i := range out.Jobs {
			j := &out.Jobs[i]
			j.Lease = q.signer.token(lease{j.ID, j.Run})
		}
	}
	return out, seq, nil
}

// await returns when the claim is answered or left. It returns an error only
// if ctx ended and the claim got nothing.
func (q *Queue) await(ctx context.Context, c *claim, wait time.Duration) error {
	if !c.waiting() { // answered in its first round, or too late to wait
		return nil
	}
	if !c.waits {
		c.leave(claimLeft)
		return nil
	}
	var err error
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.answered:
		return nil
	case <-timer.C:
	case <-q.draining:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !c.leave(claimLeft) {
		<-c.answered
		return nil
	}
	q.send(&op{forget: c, done: make(chan struct{})}) //nolint:errcheck // after Close nobody waits in the lists
	return err
}

func (req *ClaimRequest) validate() error {
	switch {
	case len(req.Queues) == 0:
		return &SpecError{"queues", "name at least one queue"}
	case len(req.Queues) > MaxQueuesInClaim:
		return &SpecError{"queues", fmt.Sprintf("at most %d queues in a claim", MaxQueuesInClaim)}
	case req.Max < 0 || req.Max > MaxClaim:
		return &SpecError{"max", fmt.Sprintf("must be from 1 to %d", MaxClaim)}
	case req.Wait < 0 || req.Wait > MaxWait:
		return &SpecError{"wait_ms", fmt.Sprintf("must be from 0 to %d", MaxWait.Milliseconds())}
	case len(req.Worker) > MaxName:
		return &SpecError{"worker", fmt.Sprintf("at most %d bytes", MaxName)}
	}
	if err := validLease("lease_ms", req.Lease); err != nil {
		return err
	}
	seen := make(map[string]bool, len(req.Queues))
	for i, name := range req.Queues {
		if err := validName(fmt.Sprintf("queues[%d]", i), name); err != nil {
			return err
		}
		if seen[name] {
			return &SpecError{fmt.Sprintf("queues[%d]", i), fmt.Sprintf("%q is named twice", name)}
		}
		seen[name] = true
	}
	if err := validAcks("acks", req.Acks); err != nil {
		return err
	}
	return validFails("fails", req.Fails)
}

const everyTurn = 20 // of so many claims, each queue of the list comes first in one

// turns counts the claims of each list of queues.
type turns struct {
	mu    sync.Mutex
	count map[string]int
}

// order returns the order in which a claim tries its queues: mostly the one
// given, in one of twenty claims with another queue first.
func (t *turns) order(queues []string) []string {
	if len(queues) == 1 {
		return queues
	}
	key := strings.Join(queues, "\x00")
	t.mu.Lock()
	if t.count == nil || len(t.count) > namesKept {
		t.count = map[string]int{}
	}
	turn := t.count[key] % max(everyTurn, len(queues))
	t.count[key]++
	t.mu.Unlock()
	if turn == 0 || turn >= len(queues) {
		return queues
	}
	return slices.Concat(queues[turn:turn+1], queues[:turn], queues[turn+1:])
}
