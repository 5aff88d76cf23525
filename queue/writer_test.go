package queue

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// hold keeps the writer busy until the function that it returns is called, so
// that what is sent meanwhile shares a round.
func hold(t *testing.T, q *Queue) (let func()) {
	t.Helper()
	gate, in := make(chan struct{}), make(chan struct{})
	o := &op{done: make(chan struct{}), admin: func(*round) error { close(in); <-gate; return nil }}
	if err := q.send(o); err != nil {
		t.Fatal(err)
	}
	<-in
	return func() { close(gate) }
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
