package queue

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

var ctx = context.Background()

const day = 24 * time.Hour

// TestClockSteps: a step of the machine's clock neither ends a lease nor keeps
// one, wakes what waits, and deletes nothing.
func TestClockSteps(t *testing.T) {
	for name, by := range map[string]time.Duration{
		"an hour forward": time.Hour, "an hour back": -time.Hour, "a day forward": day, "a day back": -day,
		"a year forward": 365 * day, "a year back": -365 * day,
	} {
		t.Run(name, func(t *testing.T) {
			q, clock, path := newFake(t)
			done := mustEnqueue(t, q, Spec{Queue: "mail"})[0]
			mustAck(t, q, mustClaim(t, q, "mail", 1)[0])
			specs := make([]Spec, 50)
			for i := range specs {
				specs[i].Queue = "mail"
			}
			mustEnqueue(t, q, specs...)
			held := mustClaim(t, q, "mail", 50)
			clock.pass(10 * time.Second)
			clock.set(by)
			keepHouse(t, q)
			count := func(s State) (n int) {
				page, err := q.Jobs(ctx, Filter{State: s, Limit: MaxPage})
				if err != nil {
					t.Fatal(err)
				}
				return len(page.Jobs)
			}
			if n := count(StateRunning); n != 50 {
				t.Fatalf("%d of 50 jobs run after the step", n)
			}
			mustAck(t, q, held[0])
			if until := mustJob(t, q, held[1].ID).LeaseUntil.Sub(clock.now()); until != 20*time.Second {
				t.Errorf("a lease has %v left, want the 20 s that it had", until)
			}
			clock.pass(19 * time.Second)
			keepHouse(t, q)
			if n := count(StateRunning); n != 49 {
				t.Errorf("%d of 49 jobs run just before the end of their leases", n)
			}
			clock.pass(2 * time.Second)
			keepHouse(t, q)
			if n := count(StateQueued); n != 49 {
				t.Errorf("%d of 49 jobs are claimable after the end of their leases", n)
			}
			clock.pass(50 * time.Minute)
			keepHouse(t, q)
			mustJob(t, q, done.ID) // is there still
			clock.set(-by)         // the operator sees it
			clock.pass(2 * time.Hour)
			keepHouse(t, q)
			mustJob(t, q, done.ID)
			mustRecount(t, q)

			// A restart in between, with a clock that stands elsewhere.
			last := mustClaim(t, q, "mail", 1)[0]
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			clock.set(by)
			q = openFake(t, path, clock, Options{})
			keepHouse(t, q)
			mustJob(t, q, done.ID)
			if j := mustJob(t, q, last.ID); j.State != StateRunning {
				t.Errorf("after a restart: %s", j.State)
			}
			clock.pass(31 * time.Second)
			keepHouse(t, q)
			if j := mustJob(t, q, last.ID); j.State == StateRunning {
				t.Error("a lease of 30 s has not ended 31 s after a restart")
			}
		})
	}
}

// TestKeysAfterAStep: a clock that was set, on this machine or on the one that
// takes over, does not make a key free, so that what is sent again makes no
// second job.
func TestKeysAfterAStep(t *testing.T) {
	spec := Spec{Queue: "mail", IdempotencyKey: "k"}
	finish := func(t *testing.T, q *Queue) int64 {
		t.Helper()
		in := mustEnqueue(t, q, spec)[0]
		mustAck(t, q, mustClaim(t, q, "mail", 1)[0])
		return in.ID
	}
	t.Run("while it works", func(t *testing.T) {
		q, clock, _ := newFake(t)
		id := finish(t, q)
		clock.set(2 * day)
		if in := mustEnqueue(t, q, spec)[0]; in.ID != id || !in.Duplicate {
			t.Errorf("after the step: %+v, want a duplicate of %d", in, id)
		}
		clock.pass(61 * time.Minute) // and now the clock counts as right
		if in := mustEnqueue(t, q, spec)[0]; in.Duplicate {
			t.Errorf("an hour later: %+v, want a new job", in)
		}
	})
	t.Run("and a restart soon after", func(t *testing.T) {
		q, clock, path := newFake(t)
		id := finish(t, q)
		clock.set(30 * day)
		mustEnqueue(t, q, Spec{Queue: "mail"}) // the file's last commit is by the new clock
		for range 3 {
			clock.pass(15 * time.Minute)
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			q = openFake(t, path, clock, Options{})
			keepHouse(t, q)
			mustJob(t, q, id) // is there still, long past its retention
			if in := mustEnqueue(t, q, spec)[0]; in.ID != id {
				t.Errorf("after the restart: %+v, want a duplicate of %d", in, id)
			}
		}
		clock.pass(16 * time.Minute)
		keepHouse(t, q)
		if _, err := q.Job(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("an hour later the job is there still: %v", err)
		}
	})
	t.Run("between two nodes", func(t *testing.T) {
		q, clock, path := newFake(t)
		clock.set(-2 * day)
		id := finish(t, q)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		clock.set(2 * day)
		q = openFake(t, path, clock, Options{})
		if in := mustEnqueue(t, q, spec)[0]; in.ID != id || !in.Duplicate {
			t.Errorf("on the other: %+v, want a duplicate of %d", in, id)
		}
	})
}

func mustAck(t testing.TB, q *Queue, j Claimed) {
	t.Helper()
	if res, _, err := q.Ack(ctx, []Ack{{Lease: j.Lease}}); err != nil || res[0].Err != nil {
		t.Fatalf("ack of job %d: %v, %v", j.ID, res, err)
	}
}

// TestRestarts: a lease that ended while the node was down is prolonged by
// one restart, not by each, and a new epoch turns runs into interruptions.
func TestRestarts(t *testing.T) {
	t.Run("a node that restarts again and again does not hold a job back", func(t *testing.T) {
		q, clock, path := newFake(t)
		in := mustEnqueue(t, q, Spec{Queue: "mail"})[0]
		mustClaim(t, q, "mail", 1)
		// Time passes while the node is down: one that is up reaps by itself.
		down, restarts := 31*time.Second, 0 // the lease ends
		for ; mustJob(t, q, in.ID).State == StateRunning && restarts < 10; restarts++ {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			clock.pass(down)
			q = openFake(t, path, clock, Options{})
			keepHouse(t, q)
			down = 20 * time.Second
		}
		if restarts != 3 { // 0 s, 20 s, and 40 s after the first
			t.Errorf("the job came back after %d restarts, want 3", restarts)
		}
		if j := mustJob(t, q, in.ID); j.Crashes != 1 {
			t.Errorf("%+v", j)
		}
		mustClaim(t, q, "mail", 1)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Minute)
		q = openFake(t, path, clock, Options{})
		keepHouse(t, q)
		if j := mustJob(t, q, in.ID); j.State != StateRunning {
			t.Errorf("the next run has no grace of its own: %s", j.State)
		}
	})
	t.Run("an idle restart writes nothing", func(t *testing.T) {
		q, clock, path := newFake(t)
		mustEnqueue(t, q, Spec{Queue: "mail"})
		seq := q.Seq()
		for range 3 {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			clock.pass(day)
			q = openFake(t, path, clock, Options{})
			keepHouse(t, q)
		}
		if q.Seq() != seq {
			t.Errorf("seq %v, then %v", seq, q.Seq())
		}
	})
	t.Run("a new epoch", func(t *testing.T) {
		c, path := newFakeClock(), filepath.Join(t.TempDir(), "q.db")
		q := openFake(t, path, c, Options{Epoch: 1})
		in := mustEnqueue(t, q, Spec{Queue: "mail", MaxAttempts: 1}, Spec{Queue: "mail"})
		held := mustClaim(t, q, "mail", 2)
		if _, _, err := q.Cancel(ctx, in[1].ID); err != nil {
			t.Fatal(err)
		}
		for _, epoch := range []int64{2, 2, 3} { // a restart within the epoch makes no difference
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			q = openFake(t, path, c, Options{Epoch: epoch})
		}
		if res, _, err := q.Ack(ctx, []Ack{{Lease: held[0].Lease}}); err != nil || !errors.Is(res[0].Err, ErrLeaseLost) {
			t.Errorf("a token of the old epoch: %v, %v", res, err)
		}
		c.pass(30 * time.Second)
		keepHouse(t, q)
		j := mustJob(t, q, in[0].ID)
		if j.State != StateQueued || j.Crashes != 0 || j.Interruptions != 1 || j.Runs[0].Outcome != OutcomeInterrupted {
			t.Errorf("after the lease's end: %+v", j)
		}
		if j := mustJob(t, q, in[1].ID); j.State != StateCancelled {
			t.Errorf("the one that was to be cancelled is %s", j.State)
		}
		mustClaim(t, q, "mail", 1)
		c.pass(31 * time.Second)
		keepHouse(t, q)
		if j := mustJob(t, q, in[0].ID); j.State != StateDead || j.Crashes != 1 {
			t.Errorf("a crash in the new epoch: %+v", j)
		}
		mustRecount(t, q)
	})
}
