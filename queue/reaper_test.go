package queue_test

import (
	"path/filepath"
	"testing"
	"time"

	"holdfast/queue"
)

func TestReaper(t *testing.T) {
	short := func(t *testing.T, q *queue.Queue) queue.Claimed {
		t.Helper()
		out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}, Wait: 10 * time.Second, Lease: time.Second, Worker: "gone:1:x"})
		if err != nil || len(out.Jobs) != 1 {
			t.Fatalf("%d jobs, %v", len(out.Jobs), err)
		}
		return out.Jobs[0]
	}
	t.Run("a job whose worker is gone comes back within a second of its lease's end, and is dead after three", func(t *testing.T) {
		t.Parallel()
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]
		first := short(t, q)
		for range 2 {
			ended := time.Now().Add(time.Second)
			short(t, q)
			if d := time.Since(ended); d < -50*time.Millisecond || d > 10*time.Second { // it is a second; the rest is for a busy machine
				t.Errorf("claimable %v after the end of the lease", d)
			}
		}
		wantErr(t, ack(t, q, first.Lease), queue.ErrLeaseLost)
		eventually(t, "the job is dead", 5*time.Second, func() bool { return job(t, q, in.ID).State == queue.StateDead })
		j := job(t, q, in.ID)
		if j.Crashes != 3 || j.LastError != "crash loop: the lease expired in 3 runs" || len(j.Runs) != 3 || j.Runs[0].Outcome != queue.OutcomeCrashed || j.Runs[0].Worker != "gone:1:x" {
			t.Errorf("job %+v", j)
		}
		checkCounts(t, path)
	})
	t.Run("a run that passes its timeout is a failure, whatever its worker extends", func(t *testing.T) {
		t.Parallel()
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail", Timeout: 1500 * time.Millisecond})[0]
		c := short(t, q)
		res, _, _ := q.Extend(ctx, []queue.Extend{{Lease: c.Lease, For: time.Minute}})
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		eventually(t, "the run is ended", 5*time.Second, func() bool { return job(t, q, in.ID).State == queue.StateScheduled })
		if j := job(t, q, in.ID); j.Failures != 1 || j.Crashes != 0 || j.Runs[0].Outcome != queue.OutcomeTimeout || j.LastError != "timeout after 1.5s" {
			t.Errorf("job %+v", j)
		}
		checkCounts(t, path)
	})
	t.Run("an expired job is dead, not claimed", func(t *testing.T) {
		t.Parallel()
		q, path := newQueue(t)
		in := enqueue(t, q, queue.Spec{Queue: "mail", ExpiresAt: time.Now().Add(200 * time.Millisecond)}, queue.Spec{Queue: "mail", ExpiresAt: time.Now().Add(-time.Second)})
		if jobs := claim(t, q, 10, "mail"); len(jobs) != 1 || jobs[0].ID != in[0].ID {
			t.Errorf("claimed %s", names(jobs))
		} else if _, _, err := q.Release(ctx, []string{jobs[0].Lease}); err != nil {
			t.Error(err)
		}
		for _, j := range in {
			eventually(t, "the job is dead", 5*time.Second, func() bool { return job(t, q, j.ID).State == queue.StateDead })
		}
		checkCounts(t, path)
	})
	t.Run("a lease that ended while the node was down is left alone for a while", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "q.db")
		q := open(t, path, queue.Options{})
		enqueue(t, q, queue.Spec{Queue: "mail"})
		c := short(t, q)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1200 * time.Millisecond) // the lease ends
		q = open(t, path, queue.Options{})
		time.Sleep(1500 * time.Millisecond) // the reaper looks more than once
		if err := ack(t, q, c.Lease); err != nil {
			t.Errorf("the worker that lived on: %v", err)
		}
	})
}

func TestRetention(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q := open(t, path, queue.Options{})
	var big []queue.Spec
	for range 700 { // more than a step
		big = append(big, queue.Spec{Queue: "mail", Payload: payload(string(make([]byte, 300))), IdempotencyKey: ""})
	}
	enqueue(t, q, big...)
	var acks []queue.Ack
	for _, j := range claim(t, q, 700, "mail") {
		acks = append(acks, queue.Ack{Lease: j.Lease, Result: payload(1)})
	}
	if _, _, err := q.Ack(ctx, acks); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, queue.Spec{Queue: "mail", IdempotencyKey: "dead"}, queue.Spec{Queue: "mail"})
	fail(t, q, queue.Fail{Lease: claimOne(t, q, "mail").Lease, Fatal: true, Error: "kept"})
	keep := claimOne(t, q, "mail")
	wantErr(t, ack(t, q, keep.Lease), nil)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite(t, path).Exec("update jobs set at = at - 8*24*3600*1000 where state in (6,7) and id <> ?", keep.ID); err != nil {
		t.Fatal(err)
	}
	q = open(t, path, queue.Options{})
	eventually(t, "old jobs are deleted", 10*time.Second, func() bool {
		info, err := q.Queues(ctx)
		return err == nil && info[0].Counts.Done == 1
	})
	checkCounts(t, path)
	info, _ := q.Queues(ctx)
	if info[0].Counts.Dead != 1 {
		t.Errorf("dead jobs %d: they are kept", info[0].Counts.Dead)
	}
	var left int
	if err := sqlite(t, path).QueryRow("select (select count(*) from payloads) + (select count(*) from outcomes where result is not null)").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d payloads and results were left behind (%v)", left, err)
	}
}
