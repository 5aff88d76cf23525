package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/queue"
)

// ServeMemory serves the routes of a node over a store in memory until ctx
// ends: the yardstick of a benchmark, which shows what HTTP alone costs. It can
// enqueue, claim and ack, and keeps nothing. Of cfg it uses what [NewAPI] does,
// Listen and OnReady.
func ServeMemory(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	listener, err := listen(ctx, cfg.Listen, listenFlag)
	if err != nil {
		return err
	}
	api := NewAPI(cfg)
	api.Open(&memory{})
	server := newServer(api, cfg)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		if cfg.OnReady != nil {
			cfg.OnReady("http://" + listener.Addr().String())
		}
		<-ctx.Done()
		return server.Close()
	})
	return g.Wait()
}

// memory is a queue as simple as can be: one list of jobs, whatever their queue,
// and no thought of a worker that never comes back.
type memory struct {
	Store // nil: what a benchmark does not need panics

	mu      sync.Mutex
	jobs    []queue.Claimed
	last    int64
	waiting []chan struct{} // closed, one for each job that comes
}

// Seq implements Store.
func (m *memory) Seq() queue.Seq { return queue.Seq{Epoch: 1} }

// Queues implements Store.
func (m *memory) Queues(context.Context) ([]queue.Info, error) { return nil, nil }

// Enqueue implements Store.
func (m *memory) Enqueue(_ context.Context, specs ...queue.Spec) ([]queue.Enqueued, queue.Seq, error) {
	now := time.Now()
	out := make([]queue.Enqueued, len(specs))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range specs {
		m.last++
		out[i] = queue.Enqueued{ID: m.last, State: queue.StateQueued, RunAt: now, CreatedAt: now}
		m.jobs = append(m.jobs, queue.Claimed{
			ID: m.last, Queue: s.Queue, Type: s.Type, Payload: s.Payload, Run: 1, Attempt: 1, MaxAttempts: queue.DefaultMaxAttempts,
			RunAt: now, CreatedAt: now, Lease: fmt.Sprintf("1.%d.1.", m.last), LeaseUntil: now.Add(queue.DefaultLease),
		})
		if len(m.waiting) > 0 {
			close(m.waiting[0])
			m.waiting = m.waiting[1:]
		}
	}
	return out, m.Seq(), nil
}

// Claim implements Store.
func (m *memory) Claim(ctx context.Context, req queue.ClaimRequest) (queue.Claims, queue.Seq, error) {
	out := queue.Claims{Acks: make([]queue.Result, len(req.Acks))}
	for i := range out.Acks {
		out.Acks[i].State = queue.StateDone
	}
	jobs, woken := m.take(req.Max, req.Wait > 0)
	if woken != nil {
		timer := time.NewTimer(req.Wait)
		defer timer.Stop()
		select {
		case <-woken:
			jobs, _ = m.take(req.Max, false)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	out.Jobs = jobs
	return out, m.Seq(), nil
}

// take returns up to n jobs, or how to wait for the next one.
func (m *memory) take(n int, wait bool) ([]queue.Claimed, chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n = min(max(n, 1), len(m.jobs))
	if n == 0 && wait {
		woken := make(chan struct{})
		m.waiting = append(m.waiting, woken)
		return nil, woken
	}
	jobs := m.jobs[:n:n]
	m.jobs = m.jobs[n:]
	return jobs, nil
}

// Ack implements Store.
func (m *memory) Ack(_ context.Context, acks []queue.Ack) ([]queue.Result, queue.Seq, error) {
	out := make([]queue.Result, len(acks))
	for i := range out {
		out[i].State = queue.StateDone
	}
	return out, m.Seq(), nil
}
