package queue_test

import (
	"fmt"
	"testing"
	"time"

	"holdfast/queue"
)

// all reads every page of a list and returns the ids in order.
func all(t *testing.T, q *queue.Queue, f queue.Filter) (out []int64) {
	t.Helper()
	for range 1000 {
		page, err := q.Jobs(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			if f.State != 0 && j.State != f.State {
				t.Errorf("job %d is %s", j.ID, j.State)
			}
			out = append(out, j.ID)
		}
		if page.Next == "" {
			return out
		}
		f.After = page.Next
	}
	t.Fatal("the list does not end")
	return nil
}

func TestList(t *testing.T) {
	q, _ := newQueue(t)
	var specs []queue.Spec
	for i := range 60 {
		s := queue.Spec{Queue: fmt.Sprint("q", i%3), Type: fmt.Sprint("t", i%2), Priority: i % 4, Payload: payload(i)}
		if i%5 == 0 {
			s.Tags = map[string]string{"user": fmt.Sprint(i % 10)}
		}
		if i >= 48 {
			s.Delay = time.Duration(100-i) * time.Minute
		}
		specs = append(specs, s)
	}
	in := enqueue(t, q, specs...)
	var dead []int64
	for i := range 12 {
		j := claimOne(t, q, fmt.Sprint("q", i%3))
		fail(t, q, queue.Fail{Lease: j.Lease, Error: fmt.Sprintf("error %d of kind %c", i, 'a'+i%2), Fatal: true})
		dead = append(dead, j.ID)
	}
	claim(t, q, 5, "q1")
	for _, limit := range []int{1, 7, 1000} {
		for name, c := range map[string]struct {
			f    queue.Filter
			want int
		}{
			"all":             {queue.Filter{}, 60},
			"queue":           {queue.Filter{Queue: "q1"}, 20},
			"type":            {queue.Filter{Type: "t1"}, 30},
			"tag":             {queue.Filter{Tag: "user"}, 12},
			"tag and value":   {queue.Filter{Tag: "user:5"}, 6},
			"scheduled":       {queue.Filter{State: queue.StateScheduled}, 12},
			"queued":          {queue.Filter{State: queue.StateQueued}, 31},
			"running":         {queue.Filter{State: queue.StateRunning}, 5},
			"running of q2":   {queue.Filter{State: queue.StateRunning, Queue: "q2"}, 0},
			"dead":            {queue.Filter{State: queue.StateDead}, 12},
			"dead of q2":      {queue.Filter{State: queue.StateDead, Queue: "q2"}, 4},
			"dead of a kind":  {queue.Filter{State: queue.StateDead, ErrorFP: job(t, q, dead[0]).ErrorFP}, 6},
			"done":            {queue.Filter{State: queue.StateDone}, 0},
			"unknown type":    {queue.Filter{Type: "none"}, 0},
			"scheduled of q0": {queue.Filter{State: queue.StateScheduled, Queue: "q0"}, 4},
		} {
			c.f.Limit = limit
			got := all(t, q, c.f)
			seen := map[int64]bool{}
			for _, id := range got {
				if seen[id] {
					t.Errorf("%s by %d: job %d twice", name, limit, id)
				}
				seen[id] = true
			}
			if len(got) != c.want {
				t.Errorf("%s by %d: %d jobs, want %d", name, limit, len(got), c.want)
			}
		}
	}
	t.Run("in the order in which they are next", func(t *testing.T) {
		if got := all(t, q, queue.Filter{Limit: 7}); got[0] != in[59].ID || got[59] != in[0].ID {
			t.Errorf("without a state: %v, want the newest first", got)
		}
		queued := all(t, q, queue.Filter{State: queue.StateQueued, Queue: "q2", Limit: 3})
		for _, id := range queued {
			if c := claimOne(t, q, "q2"); c.ID != id {
				t.Errorf("claimed %d, listed %d", c.ID, id)
			}
		}
		if got := all(t, q, queue.Filter{State: queue.StateScheduled, Limit: 5}); got[0] != in[59].ID {
			t.Errorf("scheduled: %v, want the first due first", got)
		}
	})
	t.Run("payloads only when asked for", func(t *testing.T) {
		page, _ := q.Jobs(ctx, queue.Filter{State: queue.StateRunning, Queue: "q1"})
		with, _ := q.Jobs(ctx, queue.Filter{State: queue.StateRunning, Queue: "q1", WithPayload: true})
		if page.Jobs[0].Payload != nil || string(with.Jobs[0].Payload) != string(job(t, q, with.Jobs[0].ID).Payload) || with.Jobs[0].Payload == nil {
			t.Errorf("%s and %s", page.Jobs[0].Payload, with.Jobs[0].Payload)
		}
	})
	t.Run("errors", func(t *testing.T) {
		_, err := q.Jobs(ctx, queue.Filter{Queue: "nope"})
		wantErr(t, err, queue.ErrNoQueue)
		for _, f := range []queue.Filter{{After: "x"}, {After: "1_2"}, {Limit: -1}, {Limit: 1001}, {ErrorFP: "zz"}, {State: queue.StateDead, After: "5"}} {
			if _, err := q.Jobs(ctx, f); err == nil {
				t.Errorf("%+v was accepted", f)
			}
		}
	})
}

func TestQueues(t *testing.T) {
	q, _ := newQueue(t)
	past := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	enqueue(t, q, queue.Spec{Queue: "b"}, queue.Spec{Queue: "b", RunAt: past, Priority: -5}, queue.Spec{Queue: "b", Priority: 7}, queue.Spec{Queue: "a", Delay: time.Hour})
	fail(t, q, queue.Fail{Lease: claimOne(t, q, "b").Lease, Error: "boom", Fatal: true})
	info, err := q.Queues(ctx)
	if err != nil || len(info) != 2 || info[0].Name != "a" || info[1].Name != "b" {
		t.Fatalf("%+v %v", info, err)
	}
	a, b := info[0], info[1]
	if a.Counts.Scheduled != 1 || !a.OldestAt.IsZero() || a.LastError != "" || !a.LastErrorAt.IsZero() {
		t.Errorf("a: %+v", a)
	}
	if b.Counts.Queued != 2 || b.Counts.Dead != 1 || !b.OldestAt.Equal(past) || b.LastError != "boom" || time.Since(b.LastErrorAt) > time.Minute {
		t.Errorf("b: %+v", b)
	}
}
