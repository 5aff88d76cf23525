package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/node/client"
)

// source is a client.Source in memory. It notes every call with the time since
// it was made, and can be told to misbehave.
type source struct {
	start time.Time

	mu       sync.Mutex
	waiting  []client.Claimed
	arrived  chan struct{} // closed and renewed when waiting grows
	calls    []callOf
	down     error           // of every call
	lost     map[string]bool // by lease
	cancel   map[string]bool
	stubborn bool                        // Claim answers although its context ended
	hang     bool                        // Extend does not answer
	hasty    bool                        // Claim does not wait
	refuse   func(leases []string) error // of a batch of outcomes as a whole; nil: none
}

type callOf struct {
	at   time.Duration
	what string
}

func newSource(jobs ...client.Claimed) *source {
	return &source{
		start: time.Now(), arrived: make(chan struct{}), waiting: jobs,
		lost: map[string]bool{}, cancel: map[string]bool{},
	}
}

// job returns a claimed job whose lease is named after its id.
func job(id, kind string) client.Claimed {
	return client.Claimed{ID: id, Queue: "mail", Type: kind, Payload: []byte(`{}`), Run: 1, Attempt: 1, MaxAttempts: 5, TimeoutMS: 600_000, Lease: "L" + id}
}

func (s *source) add(jobs ...client.Claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, jobs...)
	close(s.arrived)
	s.arrived = make(chan struct{})
}

func (s *source) set(change func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) note(format string, args ...any) {
	s.calls = append(s.calls, callOf{time.Since(s.start), fmt.Sprintf(format, args...)})
}

// said returns the calls whose text begins with what, in order.
func (s *source) said(what string) []callOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []callOf
	for _, c := range s.calls {
		if len(c.what) >= len(what) && c.what[:len(what)] == what {
			out = append(out, c)
		}
	}
	return out
}

func texts(calls []callOf) []string {
	out := []string{}
	for _, c := range calls {
		out = append(out, c.what)
	}
	return out
}

// Claim implements client.Source.
func (s *source) Claim(ctx context.Context, req client.ClaimRequest) (client.Claims, error) {
	var out client.Claims
	s.mu.Lock()
	s.note("claim max %d wait %d acks %d fails %d", req.Max, req.WaitMS, len(req.Acks), len(req.Fails))
	if s.down != nil {
		defer s.mu.Unlock()
		return out, s.down
	}
	if err := s.refused(slices.Concat(leases(req.Acks, ackLease), leases(req.Fails, failLease))); err != nil {
		defer s.mu.Unlock()
		return out, err
	}
	for _, a := range req.Acks {
		out.Acks = append(out.Acks, s.ack(a))
	}
	for _, f := range req.Fails {
		out.Fails = append(out.Fails, s.fail(f))
	}
	s.mu.Unlock()
	deadline := time.After(time.Duration(req.WaitMS) * time.Millisecond)
	done := ctx.Done()
	for {
		s.mu.Lock()
		n := min(req.Max, len(s.waiting))
		out.Jobs = slices.Clone(s.waiting[:n])
		s.waiting = s.waiting[n:]
		arrived, stubborn, hasty := s.arrived, s.stubborn, s.hasty
		s.mu.Unlock()
		if n > 0 || req.WaitMS == 0 || hasty {
			return out, nil
		}
		if stubborn {
			done = nil
		}
		select {
		case <-arrived:
		case <-deadline:
			return out, nil
		case <-done:
			return out, ctx.Err()
		}
	}
}

func (s *source) result(lease string) client.Result {
	if s.lost[lease] {
		return client.Result{ID: lease[1:], Error: &client.ErrorBody{Code: "lease_lost", Message: "lost"}}
	}
	return client.Result{ID: lease[1:], OK: true}
}

func (s *source) ack(a client.Ack) client.Result {
	s.note("ack %s %s", a.Lease, a.Result)
	if string(a.Result) == `"refuse"` {
		return client.Result{ID: a.Lease[1:], Error: &client.ErrorBody{Code: "too_large", Message: "too large"}}
	}
	return s.result(a.Lease)
}

func (s *source) fail(f client.Fail) client.Result {
	in := "by back-off"
	if f.RetryInMS != nil {
		in = fmt.Sprintf("in %dms", *f.RetryInMS)
	}
	if f.Fatal {
		in = "never"
	}
	s.note("fail %s %s: %s", f.Lease, in, f.Error)
	return s.result(f.Lease)
}

// batch answers a batch item by item, or with the error that the source is down with.
func batch[T any](s *source, verb string, items []T, lease func(T) string, f func(T) client.Result) ([]client.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refused(leases(items, lease)); err != nil && verb != "extend" {
		return nil, err
	}
	if s.down != nil {
		s.note("%s refused", verb)
		return nil, s.down
	}
	var out []client.Result
	for _, item := range items {
		out = append(out, f(item))
	}
	return out, nil
}

func ackLease(a client.Ack) string   { return a.Lease }
func failLease(f client.Fail) string { return f.Lease }

func leases[T any](items []T, lease func(T) string) []string {
	var out []string
	for _, item := range items {
		out = append(out, lease(item))
	}
	return out
}

func (s *source) refused(leases []string) error {
	if s.refuse == nil {
		return nil
	}
	return s.refuse(leases)
}

// Ack implements client.Source.
func (s *source) Ack(_ context.Context, acks ...client.Ack) ([]client.Result, error) {
	return batch(s, "ack", acks, ackLease, s.ack)
}

// Fail implements client.Source.
func (s *source) Fail(_ context.Context, fails ...client.Fail) ([]client.Result, error) {
	return batch(s, "fail", fails, failLease, s.fail)
}

// Release implements client.Source.
func (s *source) Release(_ context.Context, releases ...client.Release) ([]client.Result, error) {
	return batch(s, "release", releases, func(r client.Release) string { return r.Lease }, func(r client.Release) client.Result {
		s.note("release %s", r.Lease)
		return s.result(r.Lease)
	})
}

// Snooze implements client.Source.
func (s *source) Snooze(_ context.Context, snoozes ...client.Snoozing) ([]client.Result, error) {
	return batch(s, "snooze", snoozes, func(z client.Snoozing) string { return z.Lease }, func(z client.Snoozing) client.Result {
		s.note("snooze %s %d", z.Lease, z.DelayMS)
		return s.result(z.Lease)
	})
}

// Extend implements client.Source.
func (s *source) Extend(ctx context.Context, extends ...client.Extend) ([]client.Result, error) {
	s.mu.Lock()
	hang := s.hang
	if hang {
		s.note("extend hangs")
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return batch(s, "extend", extends, func(e client.Extend) string { return e.Lease }, func(e client.Extend) client.Result {
		s.note("extend %s %d%s", e.Lease, e.LeaseMS, e.Progress)
		r := s.result(e.Lease)
		r.Cancel = s.cancel[e.Lease]
		return r
	})
}

var errDown = &client.UnreachableError{URL: "http://test", Err: errors.New("connection refused")}
