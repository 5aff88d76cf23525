package queue_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/queue"
)

func update(t *testing.T, q *queue.Queue, name string, p queue.Patch) queue.Info {
	t.Helper()
	info, _, err := q.UpdateQueue(ctx, name, p)
	if err != nil {
		t.Fatalf("UpdateQueue: %v", err)
	}
	return info
}

func TestSettings(t *testing.T) {
	t.Run("they hold for the jobs that are there, and survive a restart", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail", MaxAttempts: 2})
		backoff := &queue.Backoff{Kind: queue.BackoffList, Delays: []time.Duration{1500 * time.Millisecond, time.Hour}}
		info := update(t, q, "mail", queue.Patch{
			MaxAttempts: new(7), Timeout: new(time.Minute), Lease: new(5 * time.Second), Backoff: backoff, MaxDepth: new(int64(9)), Durability: new("replicated"),
			Retention: map[queue.State]queue.Retention{queue.StateDone: {Age: time.Hour, Last: 3}, queue.StateDead: {Age: -1, Last: 2}},
		})
		if s := info.Settings; s.MaxAttempts != 7 || s.Timeout != time.Minute || s.Lease != 5*time.Second || s.MaxDepth != 9 || s.Durability != "replicated" ||
			s.Backoff.Kind != queue.BackoffList || s.Backoff.Delays[0] != 1500*time.Millisecond ||
			s.Retention[queue.StateDone] != (queue.Retention{Age: time.Hour, Last: 3}) || s.Retention[queue.StateDead].Age >= 0 ||
			s.Retention[queue.StateCancelled] != (queue.Retention{Age: queue.DefaultRetention}) {
			t.Errorf("settings %+v", s)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q = open(t, path, queue.Options{})
		c := claimOne(t, q, "mail")
		if d := time.Until(c.LeaseUntil); c.MaxAttempts != 7 || c.Timeout != time.Minute || d > 5*time.Second {
			t.Errorf("claimed %+v", c)
		}
		if res := fail(t, q, queue.Fail{Lease: c.Lease}); time.Until(res.RunAt) > 2*time.Second || time.Until(res.RunAt) < time.Second {
			t.Errorf("after a failure %+v", res)
		}
		if j := job(t, q, in[1].ID); j.MaxAttempts != 2 || j.Backoff.Kind != queue.BackoffList {
			t.Errorf("a job's own wish comes first: %+v", j)
		}
		info = update(t, q, "mail", queue.Patch{
			MaxAttempts: new(0), Timeout: new(time.Duration), Lease: new(time.Duration), Backoff: &queue.Backoff{}, MaxDepth: new(int64), Durability: new(""),
			Retention: map[queue.State]queue.Retention{queue.StateDone: {}, queue.StateDead: {}},
		})
		other := update(t, q, "other", queue.Patch{Create: true})
		if s, o := info.Settings, other.Settings; s.MaxAttempts != o.MaxAttempts || s.Timeout != o.Timeout || s.Lease != o.Lease || s.Backoff.Base != 15*time.Second ||
			s.MaxDepth != 0 || s.Retention[queue.StateDone] != o.Retention[queue.StateDone] {
			t.Errorf("back at the defaults: %+v and %+v", s, o)
		}
	})
	t.Run("what is wrong is named, and changes nothing", func(t *testing.T) {
		q, _ := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "mail"})
		seq := q.Seq()
		for field, p := range map[string]queue.Patch{
			"max_attempts":   {MaxAttempts: new(-1)},
			"timeout_ms":     {Timeout: new(time.Duration(1))},
			"lease_ms":       {Lease: new(time.Millisecond)},
			"max_depth":      {MaxDepth: new(int64(-1))},
			"durability":     {Durability: new("forever")},
			"backoff":        {Backoff: &queue.Backoff{Kind: "linear"}},
			"retention":      {Retention: map[queue.State]queue.Retention{queue.StateQueued: {}}},
			"retention.done": {Retention: map[queue.State]queue.Retention{queue.StateDone: {Last: -1}}},
			"retention.dead": {Retention: map[queue.State]queue.Retention{queue.StateDead: {Age: 1}}},
		} {
			_, _, err := q.UpdateQueue(ctx, "mail", p)
			var spec *queue.SpecError
			if !errors.As(err, &spec) || spec.Field != field {
				t.Errorf("%s: got %v", field, err)
			}
		}
		_, _, err := q.UpdateQueue(ctx, "nope", queue.Patch{Paused: new(true)})
		wantErr(t, err, queue.ErrNoQueue)
		if _, _, err = q.UpdateQueue(ctx, "a b", queue.Patch{Create: true}); err == nil {
			t.Error("a bad name was accepted")
		}
		if q.Seq() != seq {
			t.Error("a refused change left a commit")
		}
	})
	t.Run("a paused queue hands out nothing, and wakes claims when it is resumed", func(t *testing.T) {
		q, path := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail"})
		held := claimOne(t, q, "mail")
		update(t, q, "mail", queue.Patch{Paused: new(true)})
		if len(claim(t, q, 1, "mail")) != 0 {
			t.Error("a job of a paused queue was handed out")
		}
		wantErr(t, ack(t, q, held.Lease), nil) // what runs goes on
		enqueue(t, q, queue.Spec{Queue: "mail"})
		got := make(chan int)
		go func() {
			out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}, Wait: 10 * time.Second, Max: 5})
			if err != nil {
				t.Error(err)
			}
			got <- len(out.Jobs)
		}()
		time.Sleep(50 * time.Millisecond)
		if info := update(t, q, "mail", queue.Patch{Paused: new(false)}); info.Paused {
			t.Error("still paused")
		}
		if n := <-got; n != 2 {
			t.Errorf("the claim that waited got %d jobs, want 2", n)
		}
		checkCounts(t, path)
	})
}

func TestMaxDepth(t *testing.T) {
	q, path := newQueue(t)
	enqueue(t, q, queue.Spec{Queue: "mail", IdempotencyKey: "k"}, queue.Spec{Queue: "mail", Delay: time.Hour})
	update(t, q, "mail", queue.Patch{MaxDepth: new(int64(3))})
	enqueue(t, q, queue.Spec{Queue: "mail"})
	refused := func(specs ...queue.Spec) {
		t.Helper()
		_, _, err := q.Enqueue(ctx, specs...)
		wantErr(t, err, queue.ErrQueueFull)
	}
	refused(queue.Spec{Queue: "mail"})
	refused(queue.Spec{Queue: "mail", IdempotencyKey: "new"})
	refused(queue.Spec{Queue: "other", IdempotencyKey: "new"}, queue.Spec{Queue: "mail"})
	refused(queue.Spec{Queue: "third"}, queue.Spec{Queue: "mail"})
	if again := enqueue(t, q, queue.Spec{Queue: "mail", IdempotencyKey: "k"})[0]; !again.Duplicate {
		t.Errorf("a duplicate is no new job: %+v", again)
	}
	info, err := q.Queues(ctx)
	if err != nil || len(info) != 1 {
		t.Errorf("a refused request left queues behind: %+v, %v", info, err)
	}
	c := claimOne(t, q, "mail")
	if in := enqueue(t, q, queue.Spec{Queue: "mail", IdempotencyKey: "new"})[0]; in.Duplicate {
		t.Error("a refused request left its key behind")
	}
	refused(queue.Spec{Queue: "mail"})
	if _, _, err := q.Release(ctx, []string{c.Lease}); err != nil { // what is there may come back
		t.Error(err)
	}
	checkCounts(t, path)
}

func TestSnooze(t *testing.T) {
	q, path := newQueue(t)
	in := enqueue(t, q, queue.Spec{Queue: "mail", MaxAttempts: 1})[0]
	for run := int64(1); run <= 3; run++ {
		c := claimOne(t, q, "mail")
		res, _, err := q.Snooze(ctx, []queue.Snooze{{Lease: c.Lease}})
		if err != nil || res[0].Err != nil || res[0].State != queue.StateQueued || c.Run != run || c.Attempt != 1 {
			t.Fatalf("snooze of run %d (attempt %d): %+v, %v", c.Run, c.Attempt, res, err)
		}
	}
	c := claimOne(t, q, "mail")
	res, _, err := q.Snooze(ctx, []queue.Snooze{{Lease: c.Lease, Delay: time.Hour}, {Lease: c.Lease}})
	if err != nil || res[0].State != queue.StateScheduled || time.Until(res[0].RunAt) < 59*time.Minute {
		t.Errorf("snooze %+v, %v", res, err)
	}
	wantErr(t, res[1].Err, queue.ErrLeaseLost)
	if j := job(t, q, in.ID); j.Failures+j.Crashes+j.Interruptions != 0 || len(j.Runs) != 0 || j.State != queue.StateScheduled {
		t.Errorf("job %+v", j)
	}
	if _, _, err := q.Snooze(ctx, []queue.Snooze{{Delay: -1}}); err == nil || err.Error()[:19] != "snoozes[0].delay_ms" {
		t.Errorf("got %v", err)
	}
	enqueue(t, q, queue.Spec{Queue: "sms"})
	c = claimOne(t, q, "sms")
	if _, _, err := q.Cancel(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	if res, _, _ := q.Snooze(ctx, []queue.Snooze{{Lease: c.Lease}}); res[0].State != queue.StateCancelled {
		t.Errorf("the snooze of a job that shall be cancelled: %+v", res)
	}
	checkCounts(t, path)
}
