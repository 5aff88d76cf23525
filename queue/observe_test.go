package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/queue"
)

func TestWait(t *testing.T) {
	q, _ := newQueue(t)
	wait := func(id int64, d time.Duration) (queue.Job, time.Duration) {
		t.Helper()
		start := time.Now()
		j, err := q.Wait(ctx, id, d)
		if err != nil {
			t.Errorf("Wait: %v", err)
		}
		return j, time.Since(start)
	}
	t.Run("for each kind of end", func(t *testing.T) {
		for name, end := range map[queue.State]func(queue.Claimed){
			queue.StateDone:      func(c queue.Claimed) { wantErr(t, ack(t, q, c.Lease), nil) },
			queue.StateDead:      func(c queue.Claimed) { fail(t, q, queue.Fail{Lease: c.Lease, Fatal: true}) },
			queue.StateCancelled: func(c queue.Claimed) { q.Cancel(ctx, c.ID); q.Release(ctx, []string{c.Lease}) }, //nolint:errcheck // seen below
		} {
			enqueue(t, q, queue.Spec{Queue: "mail"})
			c := claimOne(t, q, "mail")
			timer := time.AfterFunc(100*time.Millisecond, func() { end(c) })
			defer timer.Stop()
			if j, d := wait(c.ID, 20*time.Second); j.State != name || d > 10*time.Second {
				t.Errorf("%s: got %s after %v", name, j.State, d)
			}
			if j, d := wait(c.ID, 20*time.Second); j.State != name || d > 5*time.Second {
				t.Errorf("%s: a job at its end is waited for: %v", name, d)
			}
		}
	})
	t.Run("a job that does not end is answered as it is", func(t *testing.T) {
		in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]
		if j, d := wait(in.ID, 100*time.Millisecond); j.State != queue.StateQueued || d < 100*time.Millisecond {
			t.Errorf("%s after %v", j.State, d)
		}
		timer := time.AfterFunc(100*time.Millisecond, q.DrainClaims)
		defer timer.Stop()
		if _, d := wait(in.ID, 20*time.Second); d > 10*time.Second {
			t.Errorf("answered %v after the drain", d)
		}
		_, err := q.Wait(ctx, 999, time.Second)
		wantErr(t, err, queue.ErrNotFound)
		if _, err = q.Wait(ctx, in.ID, time.Hour); err == nil {
			t.Error("an hour was accepted")
		}
	})
}

func TestExport(t *testing.T) {
	q, _ := newQueue(t)
	dead := bury(t, q, "mail", "", "x", 3)
	specs := make([]queue.Spec, 150)
	for i := range specs {
		specs[i] = queue.Spec{Queue: fmt.Sprint("q", i%3), Payload: payload(string(make([]byte, i*3)))}
	}
	want := slices.Clone(dead)
	for _, in := range enqueue(t, q, specs...) {
		want = append(want, in.ID)
	}
	slices.Sort(want)
	var got []int64
	for j, err := range q.Export(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, j.ID)
		if len(j.Payload) == 0 || slices.Contains(dead, j.ID) != (len(j.Runs) == 1) {
			t.Errorf("job %d has %d bytes of payload and %d runs", j.ID, len(j.Payload), len(j.Runs))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range q.Export(ctx) { //nolint:errcheck // it is about the break
		break
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range q.Export(ctx) {
		wantErr(t, err, queue.ErrClosed)
	}
}

func TestThroughput(t *testing.T) {
	q, path := newQueue(t)
	bury(t, q, "mail", "", "x", 3)
	enqueue(t, q, queue.Spec{Queue: "sms"})
	wantErr(t, ack(t, q, claimOne(t, q, "sms").Lease), nil)
	sum := func(name string) (m queue.Minute) {
		minutes, err := q.Throughput(ctx, name, time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range minutes {
			m.Enqueued, m.Done, m.Failed, m.Dead = m.Enqueued+i.Enqueued, m.Done+i.Done, m.Failed+i.Failed, m.Dead+i.Dead
		}
		return m
	}
	if got := sum("mail"); got != (queue.Minute{Enqueued: 3, Failed: 3, Dead: 3}) {
		t.Errorf("mail: %+v", got)
	}
	if got := sum(""); got != (queue.Minute{Enqueued: 4, Done: 1, Failed: 3, Dead: 3}) {
		t.Errorf("all: %+v", got)
	}
	if _, err := sqlite(t, path).Exec("update counts set minute = minute - 100 where id > 0"); err != nil {
		t.Fatal(err)
	}
	if got := sum(""); got != (queue.Minute{}) {
		t.Errorf("of the last hour: %+v", got)
	}
}

func TestRecount(t *testing.T) {
	q, path := newQueue(t)
	bury(t, q, "mail", "", "x", 3)
	enqueue(t, q, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail", Delay: time.Hour}, queue.Spec{Queue: "sms"})
	claimOne(t, q, "sms")
	if diff, err := q.Recount(ctx); err != nil || len(diff) != 0 {
		t.Errorf("got %+v, %v", diff, err)
	}
	if _, err := sqlite(t, path).Exec("update jobs set state = 6 where state = 4; update jobs set flags = 16 where id = (select min(id) from jobs where state = 7)"); err != nil {
		t.Fatal(err)
	}
	want := []queue.Difference{
		{Queue: "mail", State: queue.StateQueued, Counter: 1},
		{Queue: "mail", State: queue.StateDone, Rows: 1},
		{Queue: "mail", State: queue.StateDead, Counter: 3, Rows: 2},
	}
	if diff, err := q.Recount(ctx); err != nil || !slices.Equal(diff, want) {
		t.Errorf("got %+v, %v, want %+v", diff, err, want)
	}
}

// TestSpread: jobs that fail together do not come back together, and none
// before its delay.
func TestSpread(t *testing.T) {
	q, path := newQueue(t)
	const delay = 1000 * time.Second
	specs := make([]queue.Spec, 1000)
	for i := range specs {
		specs[i] = queue.Spec{Queue: "mail", Backoff: &queue.Backoff{Kind: queue.BackoffFixed, Base: delay}}
	}
	var first, last time.Duration
	inQuarter := [4]int{}
	for range 10 {
		enqueue(t, q, specs...)
		var fails []queue.Fail
		for _, j := range claim(t, q, 1000, "mail") {
			fails = append(fails, queue.Fail{Lease: j.Lease, Error: "the database is down"})
		}
		before := time.Now().Truncate(time.Millisecond)
		res, _, err := q.Fail(ctx, fails)
		if err != nil || len(res) != 1000 {
			t.Fatal(len(res), err)
		}
		took := time.Since(before)
		for _, r := range res {
			d := r.RunAt.Sub(before)
			if d < delay {
				t.Fatalf("a job comes back after %v, before its delay of %v", d, delay)
			}
			if first == 0 || d < first {
				first = d
			}
			last = max(last, d-took)
			inQuarter[min(3, max(0, int((d-took-delay)*4/(delay*3/10))))]++
		}
	}
	if last-first < delay/4 {
		t.Errorf("10,000 jobs come back within %v, want at least a quarter of %v", last-first, delay)
	}
	for i, n := range inQuarter {
		if n < 2000 {
			t.Errorf("only %d of 10,000 in quarter %d of the spread", n, i+1)
		}
	}
	checkCounts(t, path)
}
