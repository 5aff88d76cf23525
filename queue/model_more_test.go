package queue

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

func (r *modelRun) release() {
	lease, j := r.lease()
	res, _, err := r.q.Release(ctx, []string{lease})
	r.result("release", j, res, err, func(Result) { r.m.release(j) })
}

func (r *modelRun) snooze() {
	lease, j := r.lease()
	delay := time.Duration(r.rnd.IntN(3)) * time.Minute
	res, _, err := r.q.Snooze(ctx, []Snooze{{Lease: lease, Delay: delay}})
	r.result("snooze", j, res, err, func(Result) { r.m.snooze(j, delay) })
}

func (r *modelRun) extend() {
	lease, j := r.lease()
	d := time.Duration(1+r.rnd.IntN(60)) * time.Second
	res, _, err := r.q.Extend(ctx, []Extend{{Lease: lease, For: d}})
	if j != nil && j.started+j.timeout <= r.m.lease() {
		j = nil // the timeout has passed, and the reaper will have it
	}
	r.result("extend", j, res, err, func(got Result) {
		j.at = min(r.m.lease()+d.Milliseconds(), j.started+j.timeout)
		if got.LeaseUntil.UnixMilli() != j.at || got.Cancel != j.cancel {
			r.t.Errorf("extend: %+v, want %+v", got, *j)
		}
	})
}

// job picks a job, mostly one that is there.
func (r *modelRun) job() (int64, *modelJob) {
	jobs := r.m.sorted(func(*modelJob) bool { return true })
	if len(jobs) == 0 || r.one(30) {
		return 1 << 60, nil
	}
	j := jobs[r.rnd.IntN(len(jobs))]
	return j.id, j
}

// changed checks the answer to a change by hand.
func (r *modelRun) changed(what string, j *modelJob, err error, ok func() bool, then func()) {
	r.t.Helper()
	var want error
	switch {
	case j == nil:
		want = ErrNotFound
	case !ok():
		want = ErrWrongState
	}
	r.note("%s %+v: %v", what, j, err)
	if !errors.Is(err, want) || want == nil && err != nil {
		r.t.Errorf("%s of %+v: %v, want %v", what, j, err, want)
	} else if want == nil {
		then()
	}
}

func (r *modelRun) cancel() {
	id, j := r.job()
	_, _, err := r.q.Cancel(ctx, id)
	r.changed("cancel", j, err, func() bool { return j.state != StateDone && j.state != StateDead }, func() {
		switch j.state {
		case StateRunning:
			j.cancel = true
		case StateScheduled, StateQueued:
			r.m.end(j, StateCancelled)
		}
	})
}

// dead picks a dead job, if there is one.
func (r *modelRun) dead() (int64, *modelJob) {
	jobs := r.m.sorted(func(j *modelJob) bool { return j.state == StateDead })
	if len(jobs) == 0 || r.one(10) {
		return r.job()
	}
	j := jobs[r.rnd.IntN(len(jobs))]
	return j.id, j
}

func (r *modelRun) retry() {
	id, j := r.dead()
	var payload []byte
	if r.one(3) {
		payload = []byte(`"again"`)
	}
	_, _, err := r.q.Retry(ctx, id, payload)
	r.changed("retry", j, err, func() bool { return j.state == StateDead }, func() {
		r.m.retry(j)
		if payload != nil {
			j.payload = string(payload)
		}
	})
}

func (r *modelRun) archive() {
	id, j := r.dead()
	_, _, err := r.q.Archive(ctx, id)
	r.changed("archive", j, err, func() bool { return j.state == StateDead }, func() { j.archived = true })
}

func (r *modelRun) delete() {
	id, j := r.job()
	_, err := r.q.Delete(ctx, id)
	r.changed("delete", j, err, func() bool { return j.state != StateRunning }, func() { delete(r.m.jobs, id) })
}

func (r *modelRun) bulk() {
	f := Filter{Queue: r.name(), Limit: MaxPage}
	change, then := r.q.RetryDead, r.m.retry
	if r.one(2) {
		change, then = r.q.ArchiveDead, func(j *modelJob) { j.archived = true }
	}
	dead := r.m.sorted(func(j *modelJob) bool { return j.queue == f.Queue && j.state == StateDead && !j.archived })
	out, _, err := change(ctx, f, false)
	r.note("bulk %s: %+v %v", f.Queue, out, err)
	if r.m.queues[f.Queue] == nil {
		if !errors.Is(err, ErrNoQueue) {
			r.t.Errorf("bulk of no queue: %v", err)
		}
		return
	}
	if err != nil || out.Count != len(dead) || out.Next != "" {
		r.t.Errorf("bulk: %+v, %v, want %d", out, err, len(dead))
	}
	for _, j := range dead {
		then(j)
	}
}

func (r *modelRun) settings() {
	name := r.name()
	p := Patch{Create: true}
	if r.m.queues[name] == nil {
		r.m.queues[name] = &modelQueue{}
	}
	q := r.m.queues[name]
	switch r.rnd.IntN(3) {
	case 0:
		q.paused = !q.paused
		p.Paused = &q.paused
	case 1:
		q.depth = int64(r.rnd.IntN(2) * 12)
		p.MaxDepth = &q.depth
	case 2:
		q.keepAge, q.last = int64(r.rnd.IntN(2))*3600_000, r.rnd.IntN(2)*5
		p.Retention = map[State]Retention{StateDone: {Age: millis(q.keepAge), Last: int64(q.last)}}
	}
	info, _, err := r.q.UpdateQueue(ctx, name, p)
	r.note("settings %s: %+v", name, info)
	if err != nil || info.Paused != q.paused || info.Settings.MaxDepth != q.depth {
		r.t.Errorf("settings %+v: %+v, %v", p, info, err)
	}
}

// failedRound lets a claim and an enqueue share a round that fails for the sake
// of a third operation. They must answer as if it had never been: each runs
// again by itself, enqueues last.
func (r *modelRun) failedRound() {
	req, specs := r.claimRequest(), r.specs()
	req.Worker, specs[0].Queue, specs[0].Type = r.newWorker(), r.newQueue(), r.newType()
	var calls sync.WaitGroup
	let := hold(r.t, r.q)
	wait := func(n int) { // until n operations wait
		for len(r.q.w.ops) < n {
			runtime.Gosched()
		}
	}
	var claims Claims
	var jobs []Enqueued
	var claimErr, enqueueErr, failErr error
	calls.Go(func() { claims, _, claimErr = r.q.Claim(ctx, req) })
	wait(1)
	calls.Go(func() { jobs, _, enqueueErr = r.q.Enqueue(ctx, specs...) })
	wait(2)
	fault := errors.New("fault")
	calls.Go(func() {
		failErr = r.q.do(ctx, &op{admin: func(rd *round) error {
			// What comes after this in a round shall have been done when it fails.
			return errors.Join(rd.enqueue(rd.batch), rd.claims(), fault)
		}})
	})
	wait(3)
	let()
	calls.Wait()
	r.note("a round fails: %v", failErr)
	if !errors.Is(failErr, fault) {
		r.t.Errorf("the fault: %v", failErr)
	}
	r.claimed(req, claims, claimErr)
	r.enqueued(specs, jobs, enqueueErr)
	r.clock.pass(retryAfter * time.Millisecond) // housekeeping was put off
	r.m.read(r.clock)
}

func (r *modelRun) pass() {
	d := []time.Duration{250 * time.Millisecond, 3 * time.Second, 25 * time.Second, 2 * time.Minute, time.Hour, 30 * time.Hour}[min(r.rnd.IntN(6), r.rnd.IntN(6))]
	r.clock.pass(d)
	r.m.read(r.clock)
	r.note("%v pass", d)
}

func (r *modelRun) setClock() {
	d := []time.Duration{30 * time.Second, time.Hour, day, 365 * day}[r.rnd.IntN(4)]
	if r.one(2) {
		d = -d
	}
	r.clock.pass(250 * time.Millisecond)
	r.clock.set(d)
	r.m.read(r.clock)
	r.note("the clock is set by %v", d)
}

// restart closes and opens the queue, or opens a copy of its file as a kill
// would have left it, perhaps later, perhaps as another primary.
func (r *modelRun) restart() {
	newEpoch, kill := r.one(4), r.one(2)
	r.compare()
	var committedAt, until int64
	if err := r.q.read.QueryRow("select committed_at from counts where id = 0").Scan(&committedAt); err != nil {
		r.t.Fatal(err)
	}
	if err := r.q.read.QueryRow(pausedUntil).Scan(&until); err != nil {
		r.t.Fatal(err)
	}
	old := r.path
	if kill {
		r.path = filepath.Join(r.t.TempDir(), "q.db")
		for _, suffix := range []string{"", "-wal"} {
			text, err := os.ReadFile(old + suffix)
			if err == nil {
				err = os.WriteFile(r.path+suffix, text, 0o600)
			}
			if err != nil {
				r.t.Fatal(err)
			}
		}
	}
	if err := r.q.Close(); err != nil {
		r.t.Fatal(err)
	}
	if kill {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			os.Remove(old + suffix)
		}
	}
	if newEpoch {
		r.epoch++
	}
	down := []time.Duration{0, time.Second, time.Minute, 2 * time.Hour}[r.rnd.IntN(4)]
	r.clock.pass(down)
	if r.one(3) {
		r.setClock()
	}
	r.note("restart: kill %v, epoch %d, down %v", kill, r.epoch, down)
	r.q = openFake(r.t, r.path, r.clock, Options{Epoch: r.epoch, OnChange: r.seen.told})
	r.m.restart(r.clock, committedAt, until, newEpoch)
	r.sync()
	r.compare()
}

// compare looks at every job, and at every counter.
func (r *modelRun) compare() {
	r.t.Helper()
	var got []int64
	for j, err := range r.q.Export(ctx) {
		if err != nil {
			r.t.Fatal(err)
		}
		got = append(got, j.ID)
		w := r.m.jobs[j.ID]
		if w == nil {
			r.t.Errorf("job %d is not in the model: %+v", j.ID, j)
			continue
		}
		have := modelJob{
			id: j.ID, queue: j.Queue, typ: j.Type, worker: w.worker, payload: string(j.Payload), lastError: j.LastError, state: j.State, priority: j.Priority, attempts: j.MaxAttempts, run: j.Run,
			failures: j.Failures, crashes: j.Crashes, interruptions: j.Interruptions, runAt: j.RunAt.UnixMilli(), expires: toMS(j.ExpiresAt), timeout: j.Timeout.Milliseconds(),
			cancel: j.CancelRequested, archived: !j.ArchivedAt.IsZero(), at: w.at, started: w.started, graced: w.graced, oldEpoch: w.oldEpoch,
		}
		switch {
		case j.State == StateRunning:
			have.at, have.started, have.worker = j.LeaseUntil.UnixMilli(), j.StartedAt.UnixMilli(), j.Worker
		case j.State.Final():
			have.at = j.FinishedAt.UnixMilli()
		}
		if have != *w {
			r.t.Errorf("job\n%+v, want\n%+v", have, *w)
		}
	}
	if want := r.m.sorted(func(*modelJob) bool { return true }); len(want) != len(got) {
		for _, j := range want {
			if !slices.Contains(got, j.id) {
				r.t.Errorf("job is missing: %+v", *j)
			}
		}
	}
	mustRecount(r.t, r.q)
	r.seen.compare(r.t, r.q)
}
