package queue

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var (
	steps = flag.Int("steps", 3000, "of TestModel")
	seed  = flag.Uint64("seed", 0, "of TestModel; 0: a new one")
)

// modelRun drives a queue and its model.
type modelRun struct {
	t     *testing.T
	rnd   *rand.Rand
	q     *Queue
	m     *model
	clock *fakeClock
	path  string
	epoch int64
	step  int
	held  []Claimed // tokens, also of runs that are over
	last  int64     // id
	log   []string
	seen  witness // of changes
}

// TestModel does random things to a queue and to the model of one, with time
// that passes and jumps, restarts, kills and new epochs, and compares what
// they answer and hold.
func TestModel(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-steps %d -seed %d", *steps, *seed)
	c := newFakeClock()
	r := &modelRun{t: t, rnd: rand.New(rand.NewPCG(*seed, 0)), clock: c, m: newModel(c), path: filepath.Join(t.TempDir(), "q.db"), epoch: 1}
	r.q = openFake(t, r.path, c, Options{Epoch: 1, OnChange: r.seen.told})
	for _, name := range []string{"a", "b", "c"} { // d comes into being by its first job
		r.m.queues[name] = &modelQueue{deadAge: (10 * day).Milliseconds()}
		if _, _, err := r.q.UpdateQueue(ctx, name, Patch{Create: true, Retention: map[State]Retention{StateDead: {Age: 10 * day}}}); err != nil {
			t.Fatal(err)
		}
	}
	ops := []struct {
		weight int
		f      func()
	}{
		{20, r.enqueue},
		{20, r.claim},
		{12, r.ack},
		{10, r.fail},
		{4, r.release},
		{4, r.snooze},
		{5, r.extend},
		{3, r.cancel},
		{4, r.retry},
		{2, r.archive},
		{2, r.delete},
		{1, r.bulk},
		{2, r.settings},
		{3, r.tx},
		{1, r.failedRound},
		{10, r.pass},
		{1, r.setClock},
		{1, r.restart},
	}
	total := 0
	for _, o := range ops {
		total += o.weight
	}
	for step := range *steps {
		r.step = step
		n := r.rnd.IntN(total)
		for _, o := range ops {
			if n -= o.weight; n < 0 {
				o.f()
				break
			}
		}
		r.sync()
		if step%100 == 0 || step == *steps-1 {
			r.compare()
		}
		if t.Failed() {
			t.Logf("at step %d; the last operations:", step)
			for _, line := range r.log[max(0, len(r.log)-30):] {
				t.Log(line)
			}
			return
		}
	}
	t.Logf("%d jobs at the end, %v later, epoch %d", len(r.m.jobs), c.monotonic(), r.epoch)
}

func (r *modelRun) note(format string, args ...any) {
	if len(r.log) > 1000 {
		r.log = slices.Delete(r.log, 0, 900)
	}
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// sync lets both do their housekeeping.
func (r *modelRun) sync() {
	r.t.Helper()
	run(r.t, r.q, func(rd *round) { rd.next.retention = min(rd.next.retention, rd.now.mono) })
	keepHouse(r.t, r.q)
	r.m.keepHouse(func(j *modelJob, least time.Duration) int64 {
		got := mustJob(r.t, r.q, j.id).RunAt.UnixMilli()
		r.inBackoff(got, least)
		return got
	})
}

func (r *modelRun) inBackoff(runAt int64, least time.Duration) {
	r.t.Helper()
	if d := millis(runAt - r.m.wall); d < least || d > least*13/10 {
		r.t.Errorf("the next attempt is in %v, want %v and up to 30 %% more", d, least)
	}
}

func (r *modelRun) pick(of ...string) string { return of[r.rnd.IntN(len(of))] }

func (r *modelRun) name() string {
	switch r.rnd.IntN(40) {
	case 0:
		return r.newQueue()
	case 1:
		return "d"
	}
	return r.pick("a", "b", "c")
}

// newQueue, newType and newWorker are names that have not been used, or not for
// long: what undoes a round must undo them too.
func (r *modelRun) newQueue() string { return fmt.Sprint("new", r.step*12 / *steps) }

func (r *modelRun) newType() string { return fmt.Sprint("new", r.step/20) }

func (r *modelRun) newWorker() string { return fmt.Sprint("new", r.step/20) }

func (r *modelRun) one(in int) bool { return r.rnd.IntN(in) == 0 }

func (r *modelRun) spec() Spec {
	s := Spec{Queue: r.name(), Type: r.pick("t", "u", r.newType()), Priority: r.rnd.IntN(3) - 1, Payload: []byte(r.pick("1", "2"))}
	if r.one(20) {
		s.Payload = fmt.Appendf(nil, "%0500d", 0)
		s.Payload[0] = '1'
	}
	if r.one(4) {
		s.Delay = []time.Duration{time.Millisecond, 5 * time.Second, time.Hour}[r.rnd.IntN(3)]
	}
	if r.one(3) {
		s.MaxAttempts = 1 + r.rnd.IntN(3)
	}
	if r.one(5) {
		s.Timeout = 20 * time.Second
	}
	if r.one(8) {
		s.ExpiresAt = r.clock.now().Add(time.Duration(r.rnd.IntN(120)) * time.Second)
	}
	if r.one(3) {
		s.IdempotencyKey = r.pick("k1", "k2", "k3", "k4", "k5")
	}
	return s
}

func (r *modelRun) specs() []Spec {
	specs := make([]Spec, 1+r.rnd.IntN(3))
	for i := range specs {
		specs[i] = r.spec()
	}
	return specs
}

// enqueued compares the answer to specs with the model's, and adds the jobs.
func (r *modelRun) enqueued(specs []Spec, out []Enqueued, err error) {
	r.t.Helper()
	owners, want := r.m.enqueue(specs)
	if !errors.Is(err, want) || want == nil && err != nil {
		r.t.Errorf("enqueue %+v: %v, want %v", specs, err, want)
	}
	if err != nil || want != nil {
		return
	}
	for i, e := range out {
		switch {
		case owners[i] == 0 && !e.Duplicate && e.ID > r.last:
			r.last = e.ID
			r.m.add(specs[i], e)
		case owners[i] < 0 && e.Duplicate && e.ID == out[-owners[i]-1].ID:
		case owners[i] > 0 && e.Duplicate && e.ID == owners[i] && e.State == r.m.jobs[e.ID].state:
		default:
			r.t.Errorf("spec %d of %+v: %+v, want the job %d", i, specs, e, owners[i])
		}
	}
}

func (r *modelRun) enqueue() {
	specs := r.specs()
	out, _, err := r.q.Enqueue(ctx, specs...)
	r.note("enqueue %d: %+v %v", len(specs), out, err)
	r.enqueued(specs, out, err)
}

func (r *modelRun) tx() {
	var out [2][]Enqueued
	var errs [2]error
	specs := [2][]Spec{r.specs(), r.specs()}
	undo := errors.New("undo")
	if r.one(2) {
		undo = nil
	} else {
		specs[0][0].Queue, specs[0][0].Type = r.newQueue(), r.newType()
	}
	err := r.q.Tx(ctx, func(tx *Tx) error {
		for i := range specs {
			out[i], errs[i] = tx.Enqueue(specs[i]...)
		}
		return undo
	})
	r.note("tx %v %v: %v", out, errs, err)
	if !errors.Is(err, undo) {
		r.t.Errorf("tx: %v, want %v", err, undo)
	}
	if undo == nil {
		for i := range specs {
			r.enqueued(specs[i], out[i], errs[i])
		}
	}
}

func (r *modelRun) claim() {
	req := r.claimRequest()
	out, _, err := r.q.Claim(ctx, req)
	r.claimed(req, out, err)
}

func (r *modelRun) claimRequest() ClaimRequest {
	req := ClaimRequest{Queues: []string{r.name()}, Max: 1 + r.rnd.IntN(4), Worker: r.pick("w1", "w2", r.newWorker())}
	if r.one(3) {
		req.Queues = []string{"a", "d", "b", "c"}
	}
	if r.one(3) {
		req.Lease = time.Duration(1+r.rnd.IntN(90)) * time.Second
	}
	return req
}

// claimed compares the answer to a claim with the model's.
func (r *modelRun) claimed(req ClaimRequest, out Claims, err error) {
	r.t.Helper()
	want := r.m.claim(req)
	r.note("claim %v %d: %d jobs", req.Queues, req.Max, len(out.Jobs))
	if err != nil || len(out.Jobs) != len(want) {
		r.t.Errorf("claim %+v: %d jobs, want %d, %v", req, len(out.Jobs), len(want), err)
		return
	}
	for i, j := range out.Jobs {
		w := want[i]
		if j.ID != w.id || j.Type != w.typ || j.Run != w.run || j.Attempt != w.failures+w.crashes+1 || j.LeaseUntil.UnixMilli() != w.at || string(j.Payload) != w.payload {
			r.t.Errorf("claimed %+v, want %+v", j, *w)
		}
	}
	r.held = append(r.held, out.Jobs...)
}

// lease picks a token, and the job that it holds, nil if it is lost.
func (r *modelRun) lease() (string, *modelJob) {
	if len(r.held) == 0 {
		return "1.1.1.x", nil
	}
	i := len(r.held) - 1 - min(r.rnd.IntN(len(r.held)), r.rnd.IntN(len(r.held)))
	c := r.held[i]
	if r.one(2) {
		r.held = slices.Delete(r.held, i, i+1)
	}
	j := r.m.jobs[c.ID]
	if j == nil || j.state != StateRunning || j.run != c.Run || j.oldEpoch {
		return c.Lease, nil
	}
	return c.Lease, j
}

// result checks the answer to one item.
func (r *modelRun) result(what string, j *modelJob, res []Result, err error, then func(Result)) {
	r.t.Helper()
	r.note("%s %+v %v", what, res, err)
	if err != nil || (j == nil) != errors.Is(res[0].Err, ErrLeaseLost) || j != nil && res[0].Err != nil {
		r.t.Errorf("%s: %+v, %v; the model has %+v", what, res, err, j)
		return
	}
	if j == nil {
		return
	}
	if then(res[0]); res[0].State != j.state || res[0].Queue != j.queue || j.state == StateScheduled && res[0].RunAt.UnixMilli() != j.runAt {
		r.t.Errorf("%s: %+v, want %+v", what, res[0], *j)
	}
}

func (r *modelRun) ack() {
	lease, j := r.lease()
	res, _, err := r.q.Ack(ctx, []Ack{{Lease: lease}})
	r.result("ack", j, res, err, func(Result) { r.m.end(j, StateDone) })
}

func (r *modelRun) fail() {
	lease, j := r.lease()
	f := Fail{Lease: lease, Error: r.pick("x", "y"), Fatal: r.one(5)}
	if r.one(2) {
		f.RetryIn = new(time.Duration(r.rnd.IntN(3)) * 2 * time.Second)
	}
	res, _, err := r.q.Fail(ctx, []Fail{f})
	r.result("fail", j, res, err, func(got Result) {
		runAt := got.RunAt.UnixMilli()
		if f.RetryIn != nil {
			runAt = r.m.wall + f.RetryIn.Milliseconds()
		} else if got.State == StateScheduled {
			r.inBackoff(runAt, DefaultBackoff().Delay(j.failures+1))
		}
		r.m.fail(j, f, runAt)
	})
}
