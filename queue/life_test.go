package queue_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/queue"
)

func TestLife(t *testing.T) {
	t.Run("a job goes from enqueue to done", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail", Type: "welcome", Payload: payload("hi"), Priority: 3, Tags: map[string]string{"user": "42"}})[0]
		if in.State != queue.StateQueued || in.Duplicate || in.ID == 0 {
			t.Fatalf("enqueued %+v", in)
		}
		c := claimOne(t, q, "mail")
		if c.ID != in.ID || c.Type != "welcome" || string(c.Payload) != `"hi"` || c.Run != 1 || c.Attempt != 1 || c.MaxAttempts != 5 || c.Priority != 3 || c.Tags["user"] != "42" {
			t.Errorf("claimed %+v", c)
		}
		if left := time.Until(c.LeaseUntil); left < 25*time.Second || left > 31*time.Second {
			t.Errorf("lease ends in %v, want about 30 s", left)
		}
		if j := job(t, q, in.ID); j.State != queue.StateRunning || j.Worker != "test:1:a" || j.LeaseUntil.IsZero() {
			t.Errorf("running job %+v", j)
		}
		res, seq, err := q.Ack(ctx, []queue.Ack{{Lease: c.Lease, Result: payload(map[string]int{"n": 1})}})
		if err != nil || res[0].Err != nil || res[0].State != queue.StateDone || seq.N == 0 || seq.Epoch != 1 {
			t.Fatalf("ack %+v %v %v", res, seq, err)
		}
		j := job(t, q, in.ID)
		if j.State != queue.StateDone || string(j.Result) != `{"n":1}` || j.FinishedAt.IsZero() || len(j.Runs) != 0 || string(j.Payload) != `"hi"` {
			t.Errorf("done job %+v", j)
		}
		checkCounts(t, path)
	})
	t.Run("a failing job is retried, dies with its reason, and is retried by hand", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail", MaxAttempts: 2, Payload: payload(1)})[0]
		res := fail(t, q, queue.Fail{Lease: claimOne(t, q, "mail").Lease, Error: "smtp 451", RetryIn: new(time.Duration)})
		if res.State != queue.StateQueued {
			t.Fatalf("after the first failure %+v", res)
		}
		c := claimOne(t, q, "mail")
		if c.Attempt != 2 || c.Run != 2 {
			t.Errorf("second claim %+v", c)
		}
		if res := fail(t, q, queue.Fail{Lease: c.Lease, Error: "smtp 452"}); res.State != queue.StateDead {
			t.Fatalf("after the second failure %+v", res)
		}
		j := job(t, q, in.ID)
		if j.State != queue.StateDead || j.LastError != "smtp 452" || j.Failures != 2 || len(j.Runs) != 2 || j.Runs[0].Error != "smtp 451" || j.Runs[0].Outcome != queue.OutcomeFailed {
			t.Errorf("dead job %+v", j)
		}
		big := payload(strings.Repeat("x", 5000))
		after, _, err := q.Retry(ctx, in.ID, big)
		if err != nil || after.State != queue.StateQueued || after.Failures != 0 || after.Run != 2 {
			t.Fatalf("retry %+v, %v", after, err)
		}
		c = claimOne(t, q, "mail")
		if c.Attempt != 1 || c.Run != 3 || string(c.Payload) != string(big) {
			t.Errorf("claim after the retry: attempt %d run %d", c.Attempt, c.Run)
		}
		wantErr(t, ack(t, q, c.Lease), nil)
		_, _, err = q.Retry(ctx, in.ID, nil)
		wantErr(t, err, queue.ErrWrongState)
		_, _, err = q.Retry(ctx, 999, nil)
		wantErr(t, err, queue.ErrNotFound)
		checkCounts(t, path)
	})
	t.Run("a failure waits for its back-off, with jitter above it", func(t *testing.T) {
		q, _ := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "mail"})
		res := fail(t, q, queue.Fail{Lease: claimOne(t, q, "mail").Lease, Error: "x"})
		if d := time.Until(res.RunAt); res.State != queue.StateScheduled || d < 14*time.Second || d > 20*time.Second {
			t.Errorf("retry in %v (%s), want 15 s and up to 30 %% more", d, res.State)
		}
	})
	t.Run("a fatal failure is dead at once", func(t *testing.T) {
		q, path := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "mail"})
		if res := fail(t, q, queue.Fail{Lease: claimOne(t, q, "mail").Lease, Fatal: true}); res.State != queue.StateDead {
			t.Errorf("got %+v", res)
		}
		checkCounts(t, path)
	})
	t.Run("a release costs no attempt", func(t *testing.T) {
		q, path := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "mail"})
		res, _, err := q.Release(ctx, []string{claimOne(t, q, "mail").Lease})
		if err != nil || res[0].Err != nil || res[0].State != queue.StateQueued {
			t.Fatalf("release %+v %v", res, err)
		}
		c := claimOne(t, q, "mail")
		j := job(t, q, c.ID)
		if c.Attempt != 1 || c.Run != 2 || j.Interruptions != 1 || j.LastError != "" {
			t.Errorf("claimed again %+v, job %+v", c, j)
		}
		checkCounts(t, path)
	})
	t.Run("an extend prolongs the lease up to the timeout and keeps progress", func(t *testing.T) {
		q, _ := newQueue(t)
		enqueue(t, q, queue.Spec{Queue: "mail", Timeout: time.Minute})
		c := claimOne(t, q, "mail")
		res, _, err := q.Extend(ctx, []queue.Extend{{Lease: c.Lease, For: time.Hour, Progress: payload(7)}})
		if err != nil || res[0].Err != nil || res[0].Cancel {
			t.Fatalf("extend %+v %v", res, err)
		}
		if d := time.Until(res[0].LeaseUntil); d < 50*time.Second || d > time.Minute {
			t.Errorf("lease ends in %v, want the minute of the timeout", d)
		}
		if j := job(t, q, c.ID); string(j.Progress) != "7" {
			t.Errorf("progress %s", j.Progress)
		}
	})
	t.Run("a delayed job becomes claimable when it is due", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail", Delay: 300 * time.Millisecond})[0]
		if in.State != queue.StateScheduled || len(claim(t, q, 1, "mail")) != 0 {
			t.Fatalf("a delayed job is claimable: %+v", in)
		}
		start := time.Now()
		out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}, Wait: 5 * time.Second})
		if err != nil || len(out.Jobs) != 1 || time.Since(start) > 10*time.Second {
			t.Errorf("claimed %d jobs after %v, %v", len(out.Jobs), time.Since(start), err)
		}
		checkCounts(t, path)
	})
}

func TestCancel(t *testing.T) {
	t.Run("a queued job at once", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]
		j, _, err := q.Cancel(ctx, in.ID)
		if err != nil || j.State != queue.StateCancelled || len(claim(t, q, 1, "mail")) != 0 {
			t.Errorf("cancelled %+v, %v", j, err)
		}
		if _, _, err = q.Cancel(ctx, in.ID); err != nil {
			t.Errorf("the second time: %v", err)
		}
		checkCounts(t, path)
	})
	t.Run("a running job when its run ends", func(t *testing.T) {
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]
		c := claimOne(t, q, "mail")
		if j, _, err := q.Cancel(ctx, in.ID); err != nil || j.State != queue.StateRunning || !j.CancelRequested {
			t.Fatalf("cancel of a running job %+v, %v", j, err)
		}
		res, _, _ := q.Extend(ctx, []queue.Extend{{Lease: c.Lease}})
		if res[0].Err != nil || !res[0].Cancel {
			t.Errorf("extend does not tell: %+v", res)
		}
		if r := fail(t, q, queue.Fail{Lease: c.Lease, Error: "stopped"}); r.State != queue.StateCancelled {
			t.Errorf("after the run %+v", r)
		}
		checkCounts(t, path)
	})
	t.Run("a finished job not any more", func(t *testing.T) {
		q, _ := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]
		wantErr(t, ack(t, q, claimOne(t, q, "mail").Lease), nil)
		_, _, err := q.Cancel(ctx, in.ID)
		wantErr(t, err, queue.ErrWrongState)
	})
}

func TestLeaseLost(t *testing.T) {
	q, path := newQueue(t)
	enqueue(t, q, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail"})
	jobs := claim(t, q, 2, "mail")
	wantErr(t, ack(t, q, jobs[0].Lease), nil)
	other, _ := newQueue(t)
	enqueue(t, other, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail"})
	foreign := claim(t, other, 2, "mail")[1].Lease
	forged := jobs[1].Lease[:len(jobs[1].Lease)-1] + "!"
	if jobs[1].Lease[len(jobs[1].Lease)-2] != 'A' {
		forged = jobs[1].Lease[:len(jobs[1].Lease)-2] + "A" + jobs[1].Lease[len(jobs[1].Lease)-1:]
	}
	for name, lease := range map[string]string{
		"acked before": jobs[0].Lease, "of another file": foreign, "forged": forged, "empty": "", "garbage": "1.2.3", "long": strings.Repeat("9", 300),
		"another run": strings.Replace(jobs[1].Lease, ".1.", ".2.", 1),
	} {
		t.Run(name, func(t *testing.T) {
			wantErr(t, ack(t, q, lease), queue.ErrLeaseLost)
			wantErr(t, fail(t, q, queue.Fail{Lease: lease, Fatal: true}).Err, queue.ErrLeaseLost)
			rel, _, _ := q.Release(ctx, []string{lease})
			wantErr(t, rel[0].Err, queue.ErrLeaseLost)
			ext, _, _ := q.Extend(ctx, []queue.Extend{{Lease: lease, Progress: payload(1)}})
			wantErr(t, ext[0].Err, queue.ErrLeaseLost)
		})
	}
	t.Run("the same lease twice in a batch counts once", func(t *testing.T) {
		res, _, err := q.Ack(ctx, []queue.Ack{{Lease: jobs[1].Lease}, {Lease: jobs[1].Lease}, {Lease: "x"}})
		if err != nil || res[0].Err != nil {
			t.Fatalf("%+v %v", res, err)
		}
		wantErr(t, res[1].Err, queue.ErrLeaseLost)
		wantErr(t, res[2].Err, queue.ErrLeaseLost)
	})
	before := q.Seq()
	wantErr(t, ack(t, q, jobs[1].Lease), queue.ErrLeaseLost)
	if q.Seq() != before {
		t.Errorf("a lost lease left a commit: %v, then %v", before, q.Seq())
	}
	checkCounts(t, path)
}
