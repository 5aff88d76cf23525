package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/queue"
)

var storm = flag.Duration("storm", 2*time.Second, "how long TestStorm lasts")

// history is what the workers of a storm saw.
type history struct {
	mu    sync.Mutex
	made  map[int64]bool
	seen  map[string]bool // runs that were handed out
	last  map[int64]int64 // the last run of a job that was handed out
	acked map[int64]int64 // the run that was acknowledged
}

// TestStorm: 64 producers, 64 workers of which some fail, crash and dawdle,
// leases that end, retention, readers and hands that change things, all at
// once. No job is lost, none is handed out twice in one run, none after its
// ack, and the counters are right.
func TestStorm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q := open(t, path, queue.Options{})
	names := []string{"a", "b", "c"}
	for _, name := range names {
		update(t, q, name, queue.Patch{Create: true, Lease: new(time.Second), Backoff: &queue.Backoff{Kind: queue.BackoffFixed, Base: time.Millisecond}})
	}
	h := &history{made: map[int64]bool{}, seen: map[string]bool{}, last: map[int64]int64{}, acked: map[int64]int64{}}
	during, stop := context.WithTimeout(ctx, *storm)
	defer stop()
	until, end := context.WithCancel(ctx)
	var producers, others sync.WaitGroup
	for p := range 64 {
		producers.Go(func() { h.produce(t, q, during, p, names) })
		others.Go(func() { h.work(t, q, until, p, names) })
	}
	for range 4 {
		others.Go(func() { read(t, q, until, names) })
	}
	producers.Wait()
	stopAll := sync.OnceFunc(func() { end(); others.Wait() })
	defer stopAll() // before the queue is closed
	eventually(t, "every job is at its end", 2*time.Minute, func() bool {
		info, err := q.Queues(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var open int64
		for _, i := range info {
			open += i.Counts.Queued + i.Counts.Running + i.Counts.Scheduled
		}
		return open == 0
	})
	stopAll()
	h.mu.Lock()
	defer h.mu.Unlock()
	done := 0
	for j, err := range q.Export(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if !h.made[j.ID] {
			t.Errorf("job %d was never acknowledged to its producer, who had no error", j.ID)
		}
		if (j.State == queue.StateDone) != (h.acked[j.ID] == j.Run) || h.last[j.ID] > j.Run {
			t.Errorf("job %d is %s after run %d, acknowledged was run %d, the last one handed out %d", j.ID, j.State, j.Run, h.acked[j.ID], h.last[j.ID])
		}
		delete(h.made, j.ID)
		done++
	}
	if len(h.made) > 0 {
		t.Errorf("%d jobs are lost", len(h.made))
	}
	t.Logf("%d jobs, %d acknowledged", done, len(h.acked))
	checkCounts(t, path)
}

func (h *history) produce(t *testing.T, q *queue.Queue, c context.Context, p int, names []string) {
	for i := 0; c.Err() == nil; i++ {
		specs := make([]queue.Spec, 1+i%3)
		for k := range specs {
			specs[k] = queue.Spec{Queue: names[(i+k)%3], Priority: i % 5, Payload: payload(i), MaxAttempts: 100}
			if i%2 == 0 {
				specs[k].IdempotencyKey = fmt.Sprint(p, i, k)
			}
			if i%7 == 0 {
				specs[k].Delay = 20 * time.Millisecond
			}
		}
		var out []queue.Enqueued
		var err error
		if i%10 == 9 {
			err = q.Tx(ctx, func(tx *queue.Tx) (err error) {
				out, err = tx.Enqueue(specs...)
				return err
			})
		} else {
			out, _, err = q.Enqueue(ctx, specs...)
		}
		if err != nil {
			t.Errorf("enqueue: %v", err)
			return
		}
		h.mu.Lock()
		for _, e := range out {
			h.made[e.ID] = true
		}
		h.mu.Unlock()
		for ahead := true; ahead && c.Err() == nil; ahead = h.backlog() > 2000 { // the workers shall keep up
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
	}
}

// backlog is about how many jobs the producers are ahead of the workers.
func (h *history) backlog() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.made) - len(h.acked)
}

func (h *history) work(t *testing.T, q *queue.Queue, c context.Context, w int, names []string) {
	for n := 0; c.Err() == nil; n++ {
		patience := 10 * time.Second
		if n%10 == 0 { // one that goes away while it waits, or is about to be answered
			patience = time.Duration(rand.IntN(50)) * time.Millisecond
		}
		wait, cancel := context.WithTimeout(c, patience)
		out, _, err := q.Claim(wait, queue.ClaimRequest{Queues: names, Max: 1 + w%4, Wait: time.Second, Worker: fmt.Sprint("w", w)})
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("claim: %v", err)
			return
		}
		for i, j := range out.Jobs {
			h.mu.Lock()
			if run := fmt.Sprint(j.ID, j.Run); h.seen[run] {
				t.Errorf("run %d of job %d was handed out twice", j.Run, j.ID)
			} else {
				h.seen[run] = true
			}
			h.last[j.ID] = max(h.last[j.ID], j.Run)
			h.mu.Unlock()
			h.finish(t, q, n+i, j)
		}
	}
}

// finish ends a run one way or another.
func (h *history) finish(t *testing.T, q *queue.Queue, how int, j queue.Claimed) {
	var res []queue.Result
	var err error
	switch how % 20 {
	case 0, 1:
		res, _, err = q.Fail(ctx, []queue.Fail{{Lease: j.Lease, Error: "x"}})
	case 2:
		res, _, err = q.Release(ctx, []string{j.Lease})
	case 3:
		res, _, err = q.Snooze(ctx, []queue.Snooze{{Lease: j.Lease, Delay: 5 * time.Millisecond}})
	case 4:
		if j.ID%8 == 0 && j.Run == 1 {
			return // a worker that dies
		}
		res, _, err = q.Extend(ctx, []queue.Extend{{Lease: j.Lease, For: time.Second}})
		if err == nil && res[0].Err == nil {
			res, _, err = q.Release(ctx, []string{j.Lease})
		}
	default:
		res, _, err = q.Ack(ctx, []queue.Ack{{Lease: j.Lease, Result: payload(j.Run)}})
		if err == nil && res[0].Err == nil {
			h.mu.Lock()
			h.acked[j.ID] = j.Run
			h.mu.Unlock()
		}
	}
	if err != nil || res[0].Err != nil && !errors.Is(res[0].Err, queue.ErrLeaseLost) {
		t.Errorf("the end of job %d: %+v, %v", j.ID, res, err)
	}
}

// read looks at everything, and pauses and resumes a queue now and then.
func read(t *testing.T, q *queue.Queue, c context.Context, names []string) {
	for n := 0; c.Err() == nil; n++ {
		page, err := q.Jobs(ctx, queue.Filter{State: queue.StateQueued + queue.State(n%3), Limit: 50})
		if err != nil {
			t.Errorf("list: %v", err)
		}
		for _, j := range page.Jobs[:min(len(page.Jobs), 3)] {
			if _, err := q.Wait(ctx, j.ID, time.Millisecond); err != nil {
				t.Errorf("wait: %v", err)
			}
		}
		if diff, err := q.Recount(ctx); err != nil || len(diff) > 0 {
			t.Errorf("recount: %+v, %v", diff, err)
		}
		if n%5 == 0 {
			update(t, q, names[n%3], queue.Patch{Paused: new(n%10 == 0)})
			update(t, q, names[n%3], queue.Patch{Paused: new(false)})
		}
		time.Sleep(10 * time.Millisecond)
	}
}
