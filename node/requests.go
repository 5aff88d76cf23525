package node

import (
	"fmt"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// From wire types to the queue's. Only what the queue could not check is
// checked here: a number of milliseconds that would overflow a Duration, or
// that would mean something else there, as a negative delay does.

func specsOf(wire []client.Spec, array bool) ([]queue.Spec, error) {
	specs := make([]queue.Spec, len(wire))
	for i := range wire {
		spec, err := specOf(&wire[i])
		if err != nil && array {
			return nil, &queue.SpecError{Field: fmt.Sprintf("jobs[%d].%s", i, err.Field), Reason: err.Reason}
		}
		if err != nil {
			return nil, err
		}
		specs[i] = spec
	}
	return specs, nil
}

func specOf(wire *client.Spec) (queue.Spec, *queue.SpecError) {
	spec := queue.Spec{
		Queue:          wire.Queue,
		Type:           wire.Type,
		Payload:        wire.Payload,
		Priority:       wire.Priority,
		MaxAttempts:    wire.MaxAttempts,
		IdempotencyKey: wire.IdempotencyKey,
		Tags:           wire.Tags,
		RunAt:          instant(wire.RunAtMS),
		ExpiresAt:      instant(wire.ExpiresAtMS),
	}
	var err *queue.SpecError
	if spec.Delay, err = millis("delay_ms", wire.DelayMS, 0, queue.MaxDelay); err != nil {
		return spec, err
	}
	if spec.Timeout, err = millis("timeout_ms", wire.TimeoutMS, 0, queue.MaxTimeout); err != nil {
		return spec, err
	}
	spec.Backoff, err = backoffOf(wire.Backoff)
	return spec, err
}

func backoffOf(wire *client.Backoff) (*queue.Backoff, *queue.SpecError) {
	if wire == nil {
		return nil, nil
	}
	b := &queue.Backoff{Kind: queue.BackoffKind(wire.Kind)}
	var err *queue.SpecError
	if b.Base, err = millis("backoff.base_ms", wire.BaseMS, 0, queue.MaxTimeout); err != nil {
		return nil, err
	}
	if b.Max, err = millis("backoff.max_ms", wire.MaxMS, 0, queue.MaxTimeout); err != nil {
		return nil, err
	}
	for i, ms := range wire.DelaysMS {
		d, err := millis(fmt.Sprintf("backoff.delays_ms[%d]", i), ms, 0, queue.MaxTimeout)
		if err != nil {
			return nil, err
		}
		b.Delays = append(b.Delays, d)
	}
	return b, nil
}

func claimOf(wire *client.ClaimRequest) (queue.ClaimRequest, error) {
	req := queue.ClaimRequest{Queues: wire.Queues, Max: wire.Max, Worker: wire.Worker, Acks: acksOf(wire.Acks)}
	var err *queue.SpecError
	if req.Wait, err = millis("wait_ms", wire.WaitMS, 0, queue.MaxWait); err != nil {
		return req, err
	}
	if req.Lease, err = leaseTime("lease_ms", wire.LeaseMS); err != nil {
		return req, err
	}
	fails, failErr := failsOf(wire.Fails)
	req.Fails = fails
	return req, failErr
}

func acksOf(wire []client.Ack) []queue.Ack {
	acks := make([]queue.Ack, len(wire))
	for i, ack := range wire {
		acks[i] = queue.Ack{Lease: ack.Lease, Result: ack.Result}
	}
	return acks
}

func failsOf(wire []client.Fail) ([]queue.Fail, error) {
	fails := make([]queue.Fail, len(wire))
	for i := range wire {
		fail, err := failOf(&wire[i])
		if err != nil {
			return nil, &queue.SpecError{Field: fmt.Sprintf("fails[%d].%s", i, err.Field), Reason: err.Reason}
		}
		fails[i] = fail
	}
	return fails, nil
}

func failOf(wire *client.Fail) (queue.Fail, *queue.SpecError) {
	fail := queue.Fail{Lease: wire.Lease, Error: wire.Error, Fatal: wire.Fatal, RetryIn: -1}
	if wire.RetryInMS == nil {
		return fail, nil
	}
	var err *queue.SpecError
	fail.RetryIn, err = millis("retry_in_ms", *wire.RetryInMS, 0, queue.MaxDelay)
	return fail, err
}

func extendsOf(wire []client.Extend) ([]queue.Extend, error) {
	extends := make([]queue.Extend, len(wire))
	for i := range wire {
		extend, err := extendOf(&wire[i])
		if err != nil {
			return nil, &queue.SpecError{Field: fmt.Sprintf("extends[%d].%s", i, err.Field), Reason: err.Reason}
		}
		extends[i] = extend
	}
	return extends, nil
}

func extendOf(wire *client.Extend) (queue.Extend, *queue.SpecError) {
	d, err := leaseTime("lease_ms", wire.LeaseMS)
	return queue.Extend{Lease: wire.Lease, For: d, Progress: wire.Progress}, err
}

// leaseTime is a lease's length, or 0 for the queue's setting.
func leaseTime(field string, ms int64) (time.Duration, *queue.SpecError) {
	if ms == 0 {
		return 0, nil
	}
	return millis(field, ms, queue.MinLease, queue.MaxLease)
}

// millis turns milliseconds within bounds into a Duration. The bounds are
// compared in milliseconds: the product may not fit.
func millis(field string, ms int64, low, high time.Duration) (time.Duration, *queue.SpecError) {
	if ms < low.Milliseconds() || ms > high.Milliseconds() {
		return 0, &queue.SpecError{
			Field:  field,
			Reason: fmt.Sprintf("must be from %d to %d; got %d", low.Milliseconds(), high.Milliseconds(), ms),
		}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// instant is a time in milliseconds since the epoch; 0 is the zero Time.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// checkDurability refuses what a node without a remote replica cannot give.
func checkDurability(field, value string) error {
	switch value {
	case "", "local":
		return nil
	case "replicated":
		return &apiError{
			code:    client.CodeReplicatedUnavailable,
			message: field + ": this node has no remote replica; use local, which means committed and on this node's disk",
		}
	}
	return &queue.SpecError{Field: field, Reason: fmt.Sprintf("must be local or replicated; got %.40q", value)}
}
