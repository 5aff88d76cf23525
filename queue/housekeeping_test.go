package queue

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// fillDone makes n done jobs of a queue, by SQL, finished one ms apart up to now.
func fillDone(t testing.TB, path, queue string, n int, state State, flags int) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec(`with recursive c(x) as (select 1 union all select x+1 from c where x < ?2)
 insert into jobs(id,state,queue,run_at,at,started_at,worker,run,flags,type,created_at,payload)
 select (select next_id from counts where id=0) + x, ?3, q.id, ?4, ?4 - ?2 + x, ?4, 65536, 1, ?5, 1, ?4, 'null' from c, queues q where q.name = ?1;
 insert into payloads select id, zeroblob(300) from jobs where state = ?3 and id not in (select id from payloads);
 insert into outcomes(id, last_error) select id, 'x' from jobs where state = ?3 and id not in (select id from outcomes);
 insert into job_runs select id, 1, 0, 0, 2, 65536, 'x' from jobs where state = ?3 and id not in (select job from job_runs);
 update counts set next_id = (select max(id)+1 from jobs) where id = 0;
 update counts set `+state.String()+` = (select count(*) from jobs where queue = counts.id and state = ?3 and not (state = 7 and flags & 16)) where id > 0`,
		queue, n, state, int64(1_800_000_000_000), flags)
	if err != nil {
		t.Fatal(err)
	}
}

func TestRetentionBounds(t *testing.T) {
	left := func(t *testing.T, q *Queue, name string) (n int) {
		t.Helper()
		for f := (Filter{Queue: name, Limit: MaxPage, Archived: true}); ; {
			page, err := q.Jobs(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			n += len(page.Jobs)
			if f.After = page.Next; f.After == "" {
				return n
			}
		}
	}
	t.Run("by age and by number, for each queue and state by itself", func(t *testing.T) {
		q, clock, path := newFake(t)
		for _, name := range []string{"a", "b", "c"} {
			mustEnqueue(t, q, Spec{Queue: name, Type: "t"})
			mustAck(t, q, mustClaim(t, q, name, 1)[0])
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		fillDone(t, path, "a", 1200, StateDone, 0)
		fillDone(t, path, "b", 700, StateDead, 0)
		fillDone(t, path, "b", 30, StateDead, flagArchived)
		fillDone(t, path, "c", 10, StateCancelled, 0)
		q = openFake(t, path, clock, Options{})
		for name, p := range map[string]Patch{
			"a": {Retention: map[State]Retention{StateDone: {Last: 100}}},
			"b": {Retention: map[State]Retention{StateDead: {Last: 50}, StateDone: {Age: -1}}},
			"c": {Retention: map[State]Retention{StateCancelled: {Age: time.Hour}, StateDone: {Age: -1}}},
		} {
			if _, _, err := q.UpdateQueue(ctx, name, p); err != nil {
				t.Fatal(err)
			}
		}
		keepHouse(t, q)
		if a, b, c := left(t, q, "a"), left(t, q, "b"), left(t, q, "c"); a != 100 || b != 1+50+30 || c != 11 {
			t.Errorf("left are %d, %d and %d jobs, want 100, 81 and 11", a, b, c)
		}
		page, err := q.Jobs(ctx, Filter{Queue: "a", State: StateDone, Limit: 1})
		if err != nil || page.Jobs[0].FinishedAt.UnixMilli() != 1_800_000_000_000 {
			t.Errorf("the latest is not kept: %+v, %v", page.Jobs, err)
		}
		clock.pass(2 * time.Hour)
		keepHouse(t, q)
		if c := left(t, q, "c"); c != 1 {
			t.Errorf("%d jobs of c are left after an hour, want the done one", c)
		}
		clock.pass(30 * day)
		keepHouse(t, q)
		if a, b, c := left(t, q, "a"), left(t, q, "b"), left(t, q, "c"); a != 0 || b != 81 || c != 1 {
			t.Errorf("left are %d, %d and %d jobs after a month, want 0, 81 and 1", a, b, c)
		}
		mustRecount(t, q)
		var rest int
		if err := q.read.QueryRow("select (select count(*) from payloads) + (select count(*) from outcomes) + (select count(*) from job_runs)").Scan(&rest); err != nil || rest != 3*82 {
			t.Errorf("%d rows belong to 82 jobs (%v)", rest, err)
		}
	})
	t.Run("no step holds the writer for long", func(t *testing.T) {
		q, clock, path := newFake(t)
		mustEnqueue(t, q, Spec{Queue: "a", Type: "t"})
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		const n = 20_000
		fillDone(t, path, "a", n, StateDone, 0)
		clock.pass(time.Minute)
		q = openFake(t, path, clock, Options{})
		run(t, q, func(r *round) { r.w.due.retention = never })
		clock.pass(8 * day)
		var steps []time.Duration
		for again := true; again; {
			run(t, q, func(r *round) {
				start := time.Now()
				r.next.again = false
				if err := r.retain(); err != nil {
					t.Error(err)
				}
				steps = append(steps, time.Since(start))
				again, r.next.again, r.next.retention = r.next.again, false, never
			})
		}
		if n := left(t, q, ""); n != 1 {
			t.Errorf("%d jobs are left, want the queued one", n)
		}
		slices.Sort(steps)
		t.Logf("%d jobs in %d steps, median %v, longest %v", n, len(steps), steps[len(steps)/2], steps[len(steps)-1])
		if len(steps) < n/stepRows { // how long one takes is the machine's; how much it does is ours
			t.Errorf("%d steps for %d jobs: one did more than %d", len(steps), n, stepRows)
		}
	})
	t.Run("many queues do not make one step long", func(t *testing.T) {
		q, clock, _ := newFake(t)
		specs := make([]Spec, 1000)
		for i := range specs {
			specs[i].Queue = fmt.Sprint("q", i)
		}
		mustEnqueue(t, q, specs...)
		for i := range specs {
			mustAck(t, q, mustClaim(t, q, specs[i].Queue, 1)[0])
		}
		clock.pass(8 * day)
		keepHouse(t, q)
		if n := left(t, q, ""); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
		mustRecount(t, q)
	})
}

// TestExpiry: a job expires wherever it waits, also after it was given back.
func TestExpiry(t *testing.T) {
	q, clock, _ := newFake(t)
	at := clock.now().Add(time.Minute)
	mustEnqueue(t, q, Spec{Queue: "released", ExpiresAt: at}, Spec{Queue: "failed", ExpiresAt: at}, Spec{Queue: "snoozed", ExpiresAt: at},
		Spec{Queue: "crashed", ExpiresAt: at}, Spec{Queue: "delayed", ExpiresAt: at, Delay: time.Hour}, Spec{Queue: "running", ExpiresAt: at}, Spec{Queue: "retried", ExpiresAt: at})
	keepHouse(t, q)
	lease := func(name string) string { return mustClaim(t, q, name, 1)[0].Lease }
	q.Release(ctx, []string{lease("released")})                                //nolint:errcheck // seen below
	q.Fail(ctx, []Fail{{Lease: lease("failed"), RetryIn: new(2 * time.Hour)}}) //nolint:errcheck // seen below
	q.Snooze(ctx, []Snooze{{Lease: lease("snoozed"), Delay: 3 * time.Hour}})   //nolint:errcheck // seen below
	res, _, _ := q.Fail(ctx, []Fail{{Lease: lease("retried"), Fatal: true}})
	if _, _, err := q.Retry(ctx, res[0].ID, nil); err != nil {
		t.Fatal(err)
	}
	lease("crashed")
	running := lease("running")
	clock.pass(29 * time.Second)
	if _, _, err := q.Extend(ctx, []Extend{{Lease: running, For: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	clock.pass(20 * time.Second)
	keepHouse(t, q) // the lease of crashed has ended
	clock.pass(20 * time.Second)
	keepHouse(t, q)
	for _, info := range mustQueues(t, q) {
		want := StateDead
		switch info.Name {
		case "running":
			want = StateRunning
		case "retried":
			want = StateQueued
		}
		page, err := q.Jobs(ctx, Filter{Queue: info.Name})
		if err != nil || page.Jobs[0].State != want || want == StateDead && page.Jobs[0].LastError != expiredReason {
			t.Errorf("%s: %+v, %v", info.Name, page.Jobs[0], err)
		}
	}
	mustRecount(t, q)
}

func mustQueues(t testing.TB, q *Queue) []Info {
	t.Helper()
	infos, err := q.Queues(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return infos
}

func TestSweeps(t *testing.T) {
	t.Run("keys that are free are deleted, those that hold are not", func(t *testing.T) {
		q, clock, _ := newFake(t)
		for i := range 700 {
			mustEnqueue(t, q, Spec{Queue: "mail", IdempotencyKey: fmt.Sprint(i)})
		}
		for _, j := range mustClaim(t, q, "mail", 650) {
			mustAck(t, q, j)
		}
		keys := func() (n int) {
			if err := q.sweepKeys(ctx); err != nil {
				t.Fatal(err)
			}
			if err := q.read.QueryRow("select count(*) from keys").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := keys(); n != 700 {
			t.Errorf("%d keys at once, want all 700", n)
		}
		clock.set(2 * day) // a clock that jumped frees nothing
		if n := keys(); n != 700 {
			t.Errorf("%d keys after a step of the clock, want all 700", n)
		}
		clock.pass(2 * day)
		if n := keys(); n != 50 {
			t.Errorf("%d keys after two days, want 50", n)
		}
	})
	t.Run("workers that are told of nowhere are deleted when they are many", func(t *testing.T) {
		q, clock, path := newFake(t)
		mustEnqueue(t, q, Spec{Queue: "mail"}, Spec{Queue: "mail"}, Spec{Queue: "mail"})
		claimBy := func(worker string) Claimed {
			t.Helper()
			out, _, err := q.Claim(ctx, ClaimRequest{Queues: []string{"mail"}, Worker: worker})
			if err != nil || len(out.Jobs) != 1 {
				t.Fatal(out, err)
			}
			return out.Jobs[0]
		}
		first := claimBy("done")
		mustAck(t, q, first)
		failed := claimBy("failed")
		if _, _, err := q.Fail(ctx, []Fail{{Lease: failed.Lease, RetryIn: new(time.Duration)}}); err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", dsn(path, "rw"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(`with recursive c(x) as (select 1 union all select x+1 from c where x < ?)
 insert into workers(name, seen_at) select 'old ' || x, 0 from c`, workersKept+5); err != nil {
			t.Fatal(err)
		}
		clock.pass(time.Hour)
		q = openFake(t, path, clock, Options{})
		claimBy("old 7")
		if err := q.sweepWorkers(ctx); err != nil {
			t.Fatal(err)
		}
		var names string
		if err := q.read.QueryRow("select group_concat(name order by id) from workers").Scan(&names); err != nil || names != ",done,failed,old 7" {
			t.Errorf("left are %.200q, %v", names, err)
		}
		if j := mustJob(t, q, failed.ID); len(j.Runs) != 1 || j.Runs[0].Worker != "failed" {
			t.Errorf("%+v", j)
		}
	})
}

// TestIdleForLong: time that passes alone writes nothing.
func TestIdleForLong(t *testing.T) {
	q, clock, path := newFake(t)
	mustEnqueue(t, q, Spec{Queue: "mail", Delay: 1000 * day})
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	seq := q.Seq()
	for range 100 {
		clock.pass(5 * time.Hour)
		keepHouse(t, q)
		if n := len(mustClaim(t, q, "mail", 1)); n != 0 {
			t.Fatalf("claimed %d", n)
		}
		mustQueues(t, q)
	}
	after, err := os.ReadFile(path + "-wal")
	if err != nil || string(after) != string(wal) || q.Seq() != seq {
		t.Errorf("time alone wrote to the file: seq %v, then %v, %v", seq, q.Seq(), err)
	}
}
