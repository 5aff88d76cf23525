package queue_test

import (
	"strings"
	"sync"
	"testing"

	"holdfast/queue"
)

func TestIdempotency(t *testing.T) {
	spec := queue.Spec{Queue: "mail", Payload: payload("a"), IdempotencyKey: "k"}
	t.Run("the same key and body is the same job, the same key and another body a conflict", func(t *testing.T) {
		q, path := newQueue(t)
		first := enqueue(t, q, spec)[0]
		again := spec
		again.Payload = []byte(` "a" `) // white space is no difference
		again.Delay = 1000
		if second := enqueue(t, q, again)[0]; !second.Duplicate || second.ID != first.ID || second.State != queue.StateQueued || second.CreatedAt != first.CreatedAt {
			t.Errorf("got %+v, want a duplicate of %+v", second, first)
		}
		other := spec
		other.Payload = payload("b")
		_, _, err := q.Enqueue(ctx, other)
		wantErr(t, err, queue.ErrIdempotencyConflict)
		other.Queue = "sms"
		if in := enqueue(t, q, other)[0]; in.Duplicate {
			t.Errorf("a key of one queue holds in another: %+v", in)
		}
		checkCounts(t, path)
	})
	t.Run("keys of any length", func(t *testing.T) {
		q, _ := newQueue(t)
		for _, n := range []int{1, 64, 65, queue.MaxKey} {
			s := spec
			s.IdempotencyKey = strings.Repeat("k", n)
			a, b := enqueue(t, q, s)[0], enqueue(t, q, s)[0]
			if a.Duplicate || !b.Duplicate || a.ID != b.ID {
				t.Errorf("%d bytes: %+v, %+v", n, a, b)
			}
		}
	})
	t.Run("the key lives as long as the job and a day after it is done", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, spec)[0]
		c := claimOne(t, q, "mail")
		if s := enqueue(t, q, spec)[0]; s.ID != in.ID || s.State != queue.StateRunning {
			t.Errorf("while it runs: %+v", s)
		}
		wantErr(t, ack(t, q, c.Lease), nil)
		if s := enqueue(t, q, spec)[0]; s.ID != in.ID || s.State != queue.StateDone {
			t.Errorf("when it is done: %+v", s)
		}
		if _, err := sqlite(t, path).Exec("update jobs set at = at - 25*3600*1000 where id = ?", in.ID); err != nil {
			t.Fatal(err)
		}
		if s := enqueue(t, q, spec)[0]; s.Duplicate || s.ID == in.ID {
			t.Errorf("25 hours later: %+v", s)
		}
	})
	t.Run("a dead job holds its key, a cancelled one does not", func(t *testing.T) {
		q, _ := newQueue(t)
		in := enqueue(t, q, spec)[0]
		fail(t, q, queue.Fail{Lease: claimOne(t, q, "mail").Lease, Fatal: true})
		if s := enqueue(t, q, spec)[0]; s.ID != in.ID || s.State != queue.StateDead {
			t.Errorf("dead: %+v", s)
		}
		if _, _, err := q.Retry(ctx, in.ID, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := q.Cancel(ctx, in.ID); err != nil {
			t.Fatal(err)
		}
		if s := enqueue(t, q, spec)[0]; s.Duplicate {
			t.Errorf("cancelled: %+v", s)
		}
	})
	t.Run("an array is all or nothing", func(t *testing.T) {
		q, path := newQueue(t)
		enqueue(t, q, spec)
		bad := []queue.Spec{{Queue: "mail", IdempotencyKey: "x"}, {Queue: "fresh"}, {Queue: "mail", IdempotencyKey: "k", Payload: payload("other")}}
		_, _, err := q.Enqueue(ctx, bad...)
		wantErr(t, err, queue.ErrIdempotencyConflict)
		page, err := q.Jobs(ctx, queue.Filter{})
		if err != nil || len(page.Jobs) != 1 {
			t.Errorf("%d jobs after a refused array, want 1 (%v)", len(page.Jobs), err)
		}
		if s := enqueue(t, q, queue.Spec{Queue: "mail", IdempotencyKey: "x", Payload: payload("new")})[0]; s.Duplicate {
			t.Error("a refused array left its key behind")
		}
		checkCounts(t, path)
	})
	t.Run("an array may name a key twice, and one that is there", func(t *testing.T) {
		q, path := newQueue(t)
		a := enqueue(t, q, spec)[0]
		out := enqueue(t, q, spec, queue.Spec{Queue: "mail", IdempotencyKey: "n"}, queue.Spec{Queue: "mail", IdempotencyKey: "n"}, queue.Spec{Queue: "mail"})
		if out[0].ID != a.ID || !out[0].Duplicate || out[1].Duplicate || !out[2].Duplicate || out[2].ID != out[1].ID || out[3].Duplicate {
			t.Errorf("got %+v", out)
		}
		_, _, err := q.Enqueue(ctx, queue.Spec{Queue: "mail", IdempotencyKey: "m"}, queue.Spec{Queue: "mail", IdempotencyKey: "m", Priority: 1})
		wantErr(t, err, queue.ErrIdempotencyConflict)
		checkCounts(t, path)
	})
	t.Run("of many at once exactly one is new", func(t *testing.T) {
		q, path := newQueue(t)
		var wg sync.WaitGroup
		var mu sync.Mutex
		fresh, ids := 0, map[int64]bool{}
		for i := range 200 {
			wg.Go(func() {
				specs := []queue.Spec{spec}
				if i%4 == 0 {
					specs = append(specs, queue.Spec{Queue: "other"})
				}
				out, _, err := q.Enqueue(ctx, specs...)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[out[0].ID] = true
				if !out[0].Duplicate {
					fresh++
				}
			})
		}
		wg.Wait()
		if fresh != 1 || len(ids) != 1 {
			t.Errorf("%d new, ids %v", fresh, ids)
		}
		checkCounts(t, path)
	})
}
