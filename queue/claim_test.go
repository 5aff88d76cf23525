package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/queue"
)

func TestClaimOrder(t *testing.T) {
	q, path := newQueue(t)
	past := time.Now().Add(-time.Hour)
	enqueue(t, q,
		queue.Spec{Queue: "a", Type: "5"}, queue.Spec{Queue: "a", Type: "6"},
		queue.Spec{Queue: "a", Type: "4", RunAt: past}, queue.Spec{Queue: "a", Type: "2", Priority: 10},
		queue.Spec{Queue: "a", Type: "1", Priority: 10, RunAt: past}, queue.Spec{Queue: "a", Type: "7", Priority: -10}, queue.Spec{Queue: "a", Type: "3", Priority: 1})
	got := ""
	for _, n := range []int{2, 1, 4} {
		for _, j := range claim(t, q, n, "a") {
			got += j.Type
		}
	}
	if got != "1234567" {
		t.Errorf("claimed in the order %s: want priority, then run_at, then id", got)
	}
	checkCounts(t, path)
}

func TestClaimSeveralQueues(t *testing.T) {
	t.Run("in the order given", func(t *testing.T) {
		q, _ := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "b"}, queue.Spec{Queue: "a"}, queue.Spec{Queue: "b"}, queue.Spec{Queue: "c", Priority: 9})
		got := ""
		for _, j := range claim(t, q, 10, "a", "b", "missing", "c") {
			got += j.Queue
		}
		if got != "abbc" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("each queue comes first in one claim of twenty", func(t *testing.T) {
		q, _ := newQueue(t)
		for _, name := range []string{"a", "b", "c"} {
			for range 100 {
				enqueue(t, q, queue.Spec{Queue: name})
			}
		}
		got := map[string]int{}
		for range 40 {
			got[claim(t, q, 1, "a", "b", "c")[0].Queue]++
		}
		if got["b"] != 2 || got["c"] != 2 || got["a"] != 36 {
			t.Errorf("of 40 claims: %v", got)
		}
	})
}

func TestClaimWaits(t *testing.T) {
	wait := func(q *queue.Queue, c context.Context, names ...string) (queue.Claims, error) {
		out, _, err := q.Claim(c, queue.ClaimRequest{Queues: names, Wait: 20 * time.Second, Worker: "w"})
		return out, err
	}
	t.Run("a waiting claim is woken by the commit, first come first served", func(t *testing.T) {
		q, path := newQueue(t)
		order := make(chan int, 3)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				out, err := wait(q, ctx, "other", "mail")
				if err != nil || len(out.Jobs) != 1 {
					t.Errorf("claim %d: %d jobs, %v", i, len(out.Jobs), err)
				}
				order <- i
			})
			time.Sleep(50 * time.Millisecond) // the order of arrival is the point
		}
		for i := range 3 {
			start := time.Now()
			enqueue(t, q, queue.Spec{Queue: "mail"})
			if got := <-order; got != i {
				t.Errorf("claim %d was served in place of %d", got, i)
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("woken after %v", d)
			}
		}
		wg.Wait()
		checkCounts(t, path)
	})
	t.Run("an empty answer comes after the wait", func(t *testing.T) {
		q, _ := newQueue(t)
		start := time.Now()
		out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}, Wait: 200 * time.Millisecond})
		if err != nil || len(out.Jobs) != 0 || time.Since(start) < 200*time.Millisecond {
			t.Errorf("%d jobs after %v, %v", len(out.Jobs), time.Since(start), err)
		}
	})
	t.Run("a claimer that goes away loses no job", func(t *testing.T) {
		q, path := newQueue(t)
		for round := range 50 {
			c, cancel := context.WithCancel(ctx)
			var wg sync.WaitGroup
			wg.Go(func() {
				out, err := wait(q, c, "mail")
				for _, j := range out.Jobs {
					wantErr(t, ack(t, q, j.Lease), nil)
				}
				if err == nil && len(out.Jobs) == 0 {
					t.Error("no job and no error")
				}
			})
			wg.Go(func() { enqueue(t, q, queue.Spec{Queue: "mail"}) })
			if round%2 == 0 {
				time.Sleep(time.Duration(round) * 20 * time.Microsecond)
			}
			cancel()
			wg.Wait()
		}
		eventually(t, "every job is done or claimable", 5*time.Second, func() bool {
			info, err := q.Queues(ctx)
			if err != nil || len(info) != 1 {
				return false
			}
			return info[0].Counts.Done+info[0].Counts.Queued == 50
		})
		checkCounts(t, path)
	})
	t.Run("acks that travel with a waiting claim are settled at once", func(t *testing.T) {
		q, _ := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]
		c := claimOne(t, q, "mail")
		var wg sync.WaitGroup
		wg.Go(func() {
			out, _, err := q.Claim(ctx, queue.ClaimRequest{
				Queues: []string{"mail"}, Wait: 10 * time.Second, Acks: []queue.Ack{{Lease: c.Lease}, {Lease: c.Lease}},
				Fails: []queue.Fail{{Lease: "x"}},
			})
			if err != nil || len(out.Jobs) != 1 || out.Acks[0].Err != nil {
				t.Errorf("%+v %v", out, err)
			}
			wantErr(t, out.Acks[1].Err, queue.ErrLeaseLost)
			wantErr(t, out.Fails[0].Err, queue.ErrLeaseLost)
		})
		eventually(t, "the ack is settled while the claim waits", 5*time.Second, func() bool { return job(t, q, in.ID).State == queue.StateDone })
		enqueue(t, q, queue.Spec{Queue: "mail"})
		wg.Wait()
	})
	t.Run("draining answers them and hands out nothing", func(t *testing.T) {
		q, _ := newQueue(t)
		done := make(chan error, 1)
		go func() {
			out, err := wait(q, ctx, "mail")
			if len(out.Jobs) > 0 {
				err = fmt.Errorf("%d jobs", len(out.Jobs))
			}
			done <- err
		}()
		time.Sleep(50 * time.Millisecond)
		q.DrainClaims()
		if err := <-done; err != nil {
			t.Error(err)
		}
		enqueue(t, q, queue.Spec{Queue: "mail"})
		if out, err := wait(q, ctx, "mail"); err != nil || len(out.Jobs) != 0 {
			t.Errorf("after draining: %d jobs, %v", len(out.Jobs), err)
		}
	})
}

func TestClaimIsBounded(t *testing.T) {
	q, path := newQueue(t)
	big := payload(strings.Repeat("x", 1<<20-2))
	for range 12 {
		enqueue(t, q, queue.Spec{Queue: "big", Payload: big})
	}
	first := claim(t, q, 1000, "big")
	if len(first) == 0 || len(first) > 9 {
		t.Errorf("one claim took %d payloads of 1 MiB, want about 8", len(first))
	}
	if rest := claim(t, q, 1000, "big"); len(first)+len(rest) != 12 {
		t.Errorf("%d and %d of 12", len(first), len(rest))
	}
	checkCounts(t, path)
}

func TestConcurrency(t *testing.T) {
	q, path := newQueue(t)
	const producers, jobsEach, workers = 16, 60, 16
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen, acked := map[string]bool{}, map[int64]bool{}
	stop, cancel := context.WithCancel(ctx)
	for p := range producers {
		wg.Go(func() {
			for i := range jobsEach {
				enqueue(t, q, queue.Spec{Queue: fmt.Sprintf("q%d", i%3), Priority: i % 5, IdempotencyKey: fmt.Sprintf("%d-%d", p, i), Payload: payload(i)})
			}
		})
	}
	var workersDone sync.WaitGroup
	for w := range workers {
		workersDone.Go(func() {
			var acks []queue.Ack
			for n := 0; ; n++ {
				out, _, err := q.Claim(stop, queue.ClaimRequest{Queues: []string{"q0", "q1", "q2"}, Max: 1 + w%4, Wait: time.Second, Worker: fmt.Sprint("w", w), Acks: acks})
				if stop.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, r := range out.Acks {
					if r.Err != nil || acked[r.ID] {
						t.Errorf("ack %d of %d: %+v", i, r.ID, r)
					}
					acked[r.ID] = true
				}
				acks = acks[:0]
				for _, j := range out.Jobs {
					run := fmt.Sprint(j.ID, ".", j.Run)
					if seen[run] {
						t.Errorf("run %s was handed out twice", run)
					}
					seen[run] = true
				}
				mu.Unlock()
				for i, j := range out.Jobs {
					switch (n + i) % 7 {
					case 0:
						fail(t, q, queue.Fail{Lease: j.Lease, Error: "x", RetryIn: new(time.Millisecond)})
					case 1:
						if _, _, err := q.Release(ctx, []string{j.Lease}); err != nil {
							t.Error(err)
						}
					default:
						acks = append(acks, queue.Ack{Lease: j.Lease})
					}
				}
			}
		})
	}
	wg.Wait()
	final := func() (n int64) {
		info, err := q.Queues(ctx)
		if err != nil {
			t.Error(err)
		}
		for _, i := range info {
			n += i.Counts.Done + i.Counts.Dead
		}
		return n
	}
	eventually(t, "every job is done or dead", 60*time.Second, func() bool { return final() == producers*jobsEach })
	cancel()
	workersDone.Wait()
	checkCounts(t, path)
}
