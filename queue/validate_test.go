package queue_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"holdfast/queue"
)

func TestBadSpecs(t *testing.T) {
	q, _ := newQueue(t)
	long := strings.Repeat("x", 2000)
	tags := map[string]string{}
	for i := range 17 {
		tags[strings.Repeat("t", i+1)] = ""
	}
	for field, specs := range map[string][]queue.Spec{
		"queue":           {{}, {Queue: "a b"}, {Queue: "-a"}, {Queue: "a/b"}, {Queue: "é"}, {Queue: long}, {Queue: "a\n"}},
		"type":            {{Queue: "q", Type: " "}, {Queue: "q", Type: long}},
		"payload":         {{Queue: "q", Payload: []byte("{")}, {Queue: "q", Payload: []byte("nope")}, {Queue: "q", Payload: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}},
		"priority":        {{Queue: "q", Priority: 1001}, {Queue: "q", Priority: -1001}, {Queue: "q", Priority: math.MinInt}},
		"delay_ms":        {{Queue: "q", Delay: -1}, {Queue: "q", Delay: math.MaxInt64}, {Queue: "q", Delay: 1, RunAt: time.Now()}},
		"run_at_ms":       {{Queue: "q", RunAt: time.Unix(1e6, 0)}, {Queue: "q", RunAt: time.Now().AddDate(11, 0, 0)}, {Queue: "q", RunAt: time.UnixMilli(math.MaxInt64)}},
		"expires_at_ms":   {{Queue: "q", ExpiresAt: time.UnixMilli(-5)}},
		"max_attempts":    {{Queue: "q", MaxAttempts: -1}, {Queue: "q", MaxAttempts: 1001}},
		"timeout_ms":      {{Queue: "q", Timeout: -1}, {Queue: "q", Timeout: 1}, {Queue: "q", Timeout: 8 * 24 * time.Hour}},
		"idempotency_key": {{Queue: "q", IdempotencyKey: long}},
		"tags":            {{Queue: "q", Tags: tags}, {Queue: "q", Tags: map[string]string{"": "x"}}, {Queue: "q", Tags: map[string]string{"x": long}}, {Queue: "q", Tags: map[string]string{"x": "\xff"}}},
		"backoff": {
			{Queue: "q", Backoff: &queue.Backoff{}},
			{Queue: "q", Backoff: &queue.Backoff{Kind: "fixed"}},
			{Queue: "q", Backoff: &queue.Backoff{Kind: "list"}},
			{Queue: "q", Backoff: &queue.Backoff{Kind: "fixed", Base: -1}},
			{Queue: "q", Backoff: &queue.Backoff{Kind: "fixed", Base: 1}},
			{Queue: "q", Backoff: &queue.Backoff{Kind: "list", Delays: []time.Duration{-1}}},
		},
	} {
		for _, s := range specs {
			_, _, err := q.Enqueue(ctx, s)
			var spec *queue.SpecError
			var large *queue.TooLargeError
			if !(errors.As(err, &spec) && spec.Field == "jobs[0]."+field) && !(errors.As(err, &large) && large.Field == "jobs[0]."+field) {
				t.Errorf("%s: got %v", field, err)
			}
			_, _, err = q.Enqueue(ctx, queue.Spec{Queue: "ok"}, s)
			if err == nil || !strings.HasPrefix(err.Error(), "jobs[1]."+field) {
				t.Errorf("%s in an array: got %v", field, err)
			}
		}
	}
	if _, _, err := q.Enqueue(ctx, make([]queue.Spec, 1001)...); err == nil {
		t.Error("1,001 specs were accepted")
	}
	if page, err := q.Jobs(ctx, queue.Filter{}); err != nil || len(page.Jobs) != 0 {
		t.Errorf("bad specs left %d jobs (%v)", len(page.Jobs), err)
	}
}

func TestBadClaims(t *testing.T) {
	q, _ := newQueue(t)
	ok := []string{"q"}
	for field, reqs := range map[string][]queue.ClaimRequest{
		"queues":      {{}, {Queues: make([]string, 101)}},
		"queues[0]":   {{Queues: []string{""}}},
		"queues[1]":   {{Queues: []string{"a", "a"}}},
		"max":         {{Queues: ok, Max: -1}, {Queues: ok, Max: 1001}},
		"wait_ms":     {{Queues: ok, Wait: -1}, {Queues: ok, Wait: time.Hour}},
		"lease_ms":    {{Queues: ok, Lease: -1}, {Queues: ok, Lease: 1}, {Queues: ok, Lease: 25 * time.Hour}},
		"worker":      {{Queues: ok, Worker: strings.Repeat("w", 129)}},
		"acks[0].res": {{Queues: ok, Acks: []queue.Ack{{Result: json.RawMessage("{")}}}},
		"fails[0].re": {{Queues: ok, Fails: []queue.Fail{{RetryIn: new(time.Duration(math.MaxInt64))}}}},
	} {
		for _, r := range reqs {
			if _, _, err := q.Claim(ctx, r); err == nil || !strings.HasPrefix(err.Error(), field) {
				t.Errorf("%s: got %v", field, err)
			}
		}
	}
	if _, _, err := q.Ack(ctx, []queue.Ack{{Result: payload(strings.Repeat("x", queue.MaxResult))}}); !errors.As(err, new(*queue.TooLargeError)) {
		t.Errorf("a result over the limit: %v", err)
	}
}

func TestErrorsAreClipped(t *testing.T) {
	q, _ := newQueue(t)
	enqueue(t, q, queue.Spec{Queue: "mail"})
	c := claimOne(t, q, "mail")
	fail(t, q, queue.Fail{Lease: c.Lease, Error: strings.Repeat("é", 10_000) + "\xff", Fatal: true})
	j := job(t, q, c.ID)
	if len(j.LastError) > queue.MaxError || !strings.HasSuffix(j.LastError, "é") || len(j.ErrorFP) != 16 {
		t.Errorf("%d bytes, fingerprint %q", len(j.LastError), j.ErrorFP)
	}
}

func TestBackoffDelays(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		b    queue.Backoff
		want []time.Duration
	}{
		{queue.DefaultBackoff(), []time.Duration{15 * s, 30 * s, 60 * s, 120 * s, 240 * s}},
		{queue.Backoff{Kind: queue.BackoffQuadratic, Base: 60 * s}, []time.Duration{60 * s, 240 * s, 540 * s}},
		{queue.Backoff{Kind: queue.BackoffFixed, Base: 7 * s}, []time.Duration{7 * s, 7 * s}},
		{queue.Backoff{Kind: queue.BackoffList, Delays: []time.Duration{s, 5 * s}}, []time.Duration{s, 5 * s, 5 * s}},
		{queue.Backoff{Kind: queue.BackoffExponential, Base: 1, Max: s}, []time.Duration{1, 2, 4}},
	} {
		for i, want := range c.want {
			if got := c.b.Delay(i + 1); got != want {
				t.Errorf("%+v after failure %d: %v, want %v", c.b, i+1, got, want)
			}
		}
		if got := c.b.Delay(1_000_000); got < 0 || got > time.Hour {
			t.Errorf("%+v after a million failures: %v", c.b, got)
		}
	}
}
