package node

import (
	"encoding/json"
	"fmt"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// From wire types to the queue's. Only what the queue could not check is
// checked here: a number of milliseconds that would overflow a Duration, or
// that would mean something else there, as a negative delay does.

// each converts the items of a batch. An error names the item that it is about.
// How many there may be is checked first: what comes next costs by the item.
func each[Wire, Item any](field string, wire []Wire, convert func(*Wire) (Item, error)) ([]Item, error) {
	if len(wire) > queue.MaxBatch {
		return nil, &queue.SpecError{Field: field, Reason: fmt.Sprintf("%d items; at most %d in a request", len(wire), queue.MaxBatch)}
	}
	items := make([]Item, len(wire))
	for i := range wire {
		var err error
		if items[i], err = convert(&wire[i]); err != nil {
			return nil, renamed(err, func(name string) string { return fmt.Sprintf("%s[%d].%s", field, i, name) })
		}
	}
	return items, nil
}

func specsOf(wire []client.Spec, array bool) ([]queue.Spec, error) {
	if array {
		return each("jobs", wire, specOf)
	}
	spec, err := specOf(&wire[0])
	return []queue.Spec{spec}, err
}

func specOf(wire *client.Spec) (queue.Spec, error) {
	spec := queue.Spec{
		Queue:          wire.Queue,
		Type:           wire.Type,
		Payload:        wire.Payload,
		Priority:       wire.Priority,
		MaxAttempts:    wire.MaxAttempts,
		IdempotencyKey: wire.IdempotencyKey,
		Tags:           wire.Tags,
		Traceparent:    wire.Traceparent,
		RunAt:          instant(wire.RunAtMS),
		ExpiresAt:      instant(wire.ExpiresAtMS),
	}
	if err := checkNesting("payload", wire.Payload); err != nil {
		return spec, err
	}
	if wire.Traceparent != "" && !client.ValidTraceparent(wire.Traceparent) {
		return spec, &queue.SpecError{Field: "traceparent", Reason: "is not one of W3C Trace Context, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	}
	var err error
	if spec.Delay, err = millis("delay_ms", wire.DelayMS, 0, queue.MaxDelay); err != nil {
		return spec, err
	}
	if spec.Timeout, err = millis("timeout_ms", wire.TimeoutMS, 0, queue.MaxTimeout); err != nil {
		return spec, err
	}
	spec.Backoff, err = backoffOf(wire.Backoff)
	return spec, err
}

func backoffOf(wire *client.Backoff) (*queue.Backoff, error) {
	if wire == nil {
		return nil, nil
	}
	b := &queue.Backoff{Kind: queue.BackoffKind(wire.Kind)}
	var err error
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
	req := queue.ClaimRequest{Queues: wire.Queues, Max: wire.Max, Worker: wire.Worker}
	var err error
	if req.Wait, err = millis("wait_ms", wire.WaitMS, 0, queue.MaxWait); err != nil {
		return req, err
	}
	if req.Lease, err = leaseTime("lease_ms", wire.LeaseMS); err != nil {
		return req, err
	}
	if req.Acks, err = each("acks", wire.Acks, ackOf); err != nil {
		return req, err
	}
	req.Fails, err = each("fails", wire.Fails, failOf)
	return req, err
}

func ackOf(wire *client.Ack) (queue.Ack, error) {
	return queue.Ack{Lease: wire.Lease, Result: wire.Result}, checkNesting("result", wire.Result)
}

func failOf(wire *client.Fail) (queue.Fail, error) {
	fail := queue.Fail{Lease: wire.Lease, Error: wire.Error, Fatal: wire.Fatal}
	if wire.RetryInMS == nil {
		return fail, nil
	}
	in, err := millis("retry_in_ms", *wire.RetryInMS, 0, queue.MaxDelay)
	fail.RetryIn = &in
	return fail, err
}

func releaseOf(wire *client.Release) (string, error) { return wire.Lease, nil }

func snoozeOf(wire *client.Snoozing) (queue.Snooze, error) {
	d, err := millis("delay_ms", wire.DelayMS, 0, queue.MaxDelay)
	return queue.Snooze{Lease: wire.Lease, Delay: d}, err
}

func extendOf(wire *client.Extend) (queue.Extend, error) {
	if err := checkNesting("progress", wire.Progress); err != nil {
		return queue.Extend{}, err
	}
	d, err := leaseTime("lease_ms", wire.LeaseMS)
	return queue.Extend{Lease: wire.Lease, For: d, Progress: wire.Progress}, err
}

// checkNesting refuses a JSON text that is nested too deep: decoders have limits
// of their own, and a job whose payload is just within that of the node could
// be claimed by nobody.
func checkNesting(field string, text json.RawMessage) error {
	if client.Nesting(text) > client.MaxNesting {
		return &queue.SpecError{Field: field, Reason: fmt.Sprintf("arrays and objects are nested more than %d levels deep", client.MaxNesting)}
	}
	return nil
}

// leaseTime is a lease's length, or 0 for the queue's setting.
func leaseTime(field string, ms int64) (time.Duration, error) {
	if ms == 0 {
		return 0, nil
	}
	return millis(field, ms, queue.MinLease, queue.MaxLease)
}

// millis turns milliseconds within bounds into a Duration. The bounds are
// compared in milliseconds: the product may not fit.
func millis(field string, ms int64, low, high time.Duration) (time.Duration, error) {
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
