package queue

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// hold keeps the writer busy until the function that it returns is called, so
// that what is sent meanwhile shares its round.
func hold(t testing.TB, q *Queue) (let func()) {
	t.Helper()
	gate, in := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(in) }) // it runs again when the round fails
	o := &op{done: make(chan struct{}), admin: func(*round) error { begun(); <-gate; return nil }}
	if err := q.send(o); err != nil {
		t.Fatal(err)
	}
	<-in
	return func() { close(gate) }
}

// TestRoundTakesIn: a round takes in what arrives while it works, a job for a
// claim that it had before too, and all share its commit.
func TestRoundTakesIn(t *testing.T) {
	q, err := Open(ctx, filepath.Join(t.TempDir(), "q.db"), Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	old := mustEnqueue(t, q, Spec{Queue: "mail"})[0]
	held, _, err := q.Claim(ctx, ClaimRequest{Queues: []string{"mail"}})
	if err != nil {
		t.Fatal(err)
	}
	before := q.Seq().N
	// The first part of the round is what holds it and a claim, which waits for a job.
	gate, in := make(chan struct{}), make(chan struct{})
	c := &claim{queues: []string{"mail"}, max: 1, waits: true, answered: make(chan struct{})}
	first := &op{done: make(chan struct{}), claim: c, admin: func(*round) error { close(in); <-gate; return nil }}
	enqueue := &op{done: make(chan struct{}), rows: mustRows(t, Spec{Queue: "mail"})}
	ack := &op{done: make(chan struct{})}
	q.addAcks(ack, []Ack{{Lease: held.Jobs[0].Lease}})
	ops := []*op{first, enqueue, ack}
	for i, o := range ops {
		if err := q.send(o); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-in
		}
	}
	close(gate)
	for i, o := range ops {
		if <-o.done; o.err != nil || o.seq != before+1 {
			t.Errorf("operation %d: commit %d, error %v; want commit %d", i, o.seq, o.err, before+1)
		}
	}
	if len(c.jobs) != 1 || c.jobs[0].ID != enqueue.rows[0].out.ID {
		t.Errorf("the claim got %+v", c.jobs)
	}
	if out := ack.finish[0].out; out.Err != nil || out.ID != old.ID {
		t.Errorf("the ack: %+v", out)
	}
	if wrong, err := q.Recount(ctx); err != nil || len(wrong) > 0 {
		t.Error(wrong, err)
	}
}

// TestCommitFails: when a commit fails the writer stops for good, with every
// caller answered, also when it fails again for the operations one by one.
func TestCommitFails(t *testing.T) {
	q, err := Open(ctx, filepath.Join(t.TempDir(), "q.db"), Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	broken, err := q.w.conn.PrepareContext(ctx, "insert into meta(k,v) values ('epoch',1)") // is there already
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	let := hold(t, q)
	poison := &op{done: make(chan struct{}), admin: func(r *round) error {
		r.w.st.commit = broken
		return errors.New("poison")
	}}
	ops := []*op{poison}
	for range 3 {
		ops = append(ops, &op{done: make(chan struct{}), rows: mustRows(t, Spec{Queue: "mail"})})
	}
	for _, o := range ops {
		if err := q.send(o); err != nil {
			t.Fatal(err)
		}
	}
	let()
	for i, o := range ops {
		<-o.done
		if i > 0 && !errors.Is(o.err, ErrUnknownOutcome) {
			t.Errorf("operation %d: %v", i, o.err)
		}
	}
	<-q.Failed()
	if !errors.Is(q.Err(), ErrUnknownOutcome) {
		t.Errorf("Err: %v", q.Err())
	}
	if _, _, err := q.Enqueue(ctx, Spec{Queue: "mail"}); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestCloseGivesBack: a job that was dealt to a claimer that left, in the last
// round before Close, does not stay leased.
func TestCloseGivesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q, err := Open(ctx, path, Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	in := mustEnqueue(t, q, Spec{Queue: "mail"})[0]
	let := hold(t, q)
	c := &claim{queues: []string{"mail"}, max: 1, answered: make(chan struct{})}
	leave := func(r *round) error { // between the commit and the answer
		r.done = append(r.done, func() { c.leave(claimLeft) })
		return nil
	}
	for _, o := range []*op{{claim: c, done: make(chan struct{})}, {admin: leave, done: make(chan struct{})}} {
		if err := q.send(o); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan error)
	go func() { closed <- q.Close() }()
	for {
		if q.mu.TryRLock() {
			end := q.closed
			q.mu.RUnlock()
			if end {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
	let()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if q, err = Open(ctx, path, Options{DiskWatermark: -1}); err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if j := mustJob(t, q, in.ID); j.State != StateQueued || j.Run != 1 {
		t.Errorf("the job is %s after run %d, want queued after the first", j.State, j.Run)
	}
	mustRecount(t, q)
}

// TestCloseWaitsForReaders: a reader under way gets its answer.
func TestCloseWaitsForReaders(t *testing.T) {
	q, err := Open(ctx, filepath.Join(t.TempDir(), "q.db"), Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustEnqueue(t, q, make10("mail")...)
	n := 0
	for _, err := range q.Export(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			go q.Close()
		}
	}
	if n != 10 { // one step
		t.Errorf("read %d of 10 jobs", n)
	}
	for range 1000 {
		_, err := q.Queues(ctx)
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrClosed) {
			t.Fatalf("a reader at Close: %v", err)
		}
		return
	}
	t.Error("reads go on after Close")
}

func make10(queue string) (specs []Spec) {
	for range 10 {
		specs = append(specs, Spec{Queue: queue})
	}
	return specs
}

// TestCloseLetsGo: after Close nothing of the file is held open.
func TestCloseLetsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q, err := Open(ctx, path, Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustEnqueue(t, q, make10("mail")...)
	mustClaim(t, q, "mail", 3)
	mustRecount(t, q)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(path + "-*"); err != nil || len(files) > 0 {
		t.Errorf("Close left %v: a connection is open still (%v)", files, err)
	}
}
