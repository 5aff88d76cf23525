package tests_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// TestReplicationAfterALostDisk kills a node and deletes its directory: the
// next start brings every job back in its state.
func TestReplicationAfterALostDisk(t *testing.T) {
	replicas(t, func(t *testing.T, replica string, _ *s3server.Server) {
		p := newPlace(t, "a", replica)
		p.ok("init")
		n := p.serve()
		want := n.fill(1000)
		time.Sleep(3 * time.Second)
		if st := n.replication(); st.ReplicatedSeq == nil || *st.ReplicatedSeq != st.Seq || st.LagMS != 0 {
			t.Errorf("after 3 s: %+v", st)
		}
		seq := n.replication().Seq
		n.kill()
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
		n = p.serve()
		n.wantJobs(want)
		if got := n.epoch(); got != 2 {
			t.Errorf("epoch %d, want 2", got)
		}
		again := n.enqueue(client.Spec{Queue: "q"})
		if _, ok := want[again.ID]; ok {
			t.Errorf("the id %s was given twice", again.ID)
		}
		n.synced()
		if v := p.verify(); v.Epoch != 2 || v.Seq <= seq {
			t.Errorf("the replica is at %+v, want epoch 2 and more than seq %d", v, seq)
		}
		if code := n.terminate(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		checkDatabase(t, n.databasePath())
	})
}

// TestReplicationAfterAKill kills a node under load: everything that was
// acknowledged is there, in the same epoch, and no base is uploaded again.
func TestReplicationAfterAKill(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	p.ok("init")
	n := p.serve()
	const large = 64 << 10
	for range 20 {
		text := make([]byte, large)
		if _, err := rand.Read(text); err != nil {
			t.Fatal(err)
		}
		payload, err := json.Marshal(base64.StdEncoding.EncodeToString(text))
		if err != nil {
			t.Fatal(err)
		}
		n.post("/v1/jobs", []client.Spec{{Queue: "ballast", Payload: payload}, {Queue: "ballast", Payload: payload}}, nil)
	}
	n.synced()
	load := newStorm(n.url)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return load.run(ctx, 2, 2) })
	s.Forget()
	for range 3 {
		time.Sleep(1500 * time.Millisecond)
		n.kill()
		n = p.serve()
	}
	time.Sleep(time.Second)
	stop()
	if err := g.Wait(); err != nil {
		t.Errorf("a request was refused: %v", err)
	}
	_, problems := load.history.check(n.jobs(stormQueue))
	for _, problem := range problems {
		t.Error(problem)
	}
	if got := n.synced().Epoch; got != 1 {
		t.Errorf("epoch %d, want 1", got)
	}
	// The ballast does not compress: a copy of the database is larger than it.
	for _, r := range s.Requests() {
		if r.Op != s3server.Put || !strings.Contains(r.Key, "/0000/") {
			continue
		}
		if info, err := os.Stat(filepath.Join(s.Dir, r.Key)); err == nil && info.Size() >= 40*large {
			t.Errorf("%s has %d bytes: a base was uploaded", r.Key, info.Size())
		}
	}
	if e := p.ls(); len(e.Epochs) != 1 {
		t.Errorf("epochs %+v, want one", e.Epochs)
	}
	if v := p.verify(); v.Bytes < 40*large {
		t.Errorf("verified %+v: the ballast is missing", v)
	}
}

// TestReplicationOutage takes the bucket away, kills the node meanwhile and
// starts it in the outage: it serves from its own disk, loses nothing, and
// catches up.
func TestReplicationOutage(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	p.ok("init")
	n := p.serve()
	session := n.session()
	before := n.enqueue(client.Spec{Queue: "q"})
	n.synced()
	up := s.Down()
	during := n.enqueue(client.Spec{Queue: "q"})
	eventually(t, 15*time.Second, "a warning", func() bool { return len(n.ready().Warnings) > 0 })
	if ready := n.ready(); !ready.Ready {
		t.Errorf("in the outage: %+v, want it to stay ready", ready)
	}
	st := n.replication()
	if st.LastError == nil || st.PendingSinceMS == nil || *st.ReplicatedSeq >= st.Seq {
		t.Errorf("in the outage: %+v", st)
	}
	if text := n.metrics(); !strings.Contains(text, "\nholdfast_replication_failing 1\n") {
		t.Errorf("metrics: %s", text)
	}
	n.kill()

	n = p.launch()
	n.waitReady(60 * time.Second)
	if st := n.replication(); !st.Offline || st.ReplicatedSeq != nil {
		t.Errorf("started in the outage: %+v, want it offline", st)
	}
	if got := n.session(); got != session {
		t.Errorf("in the outage its session is %s, want the one that the bucket knows, %s", got, session)
	}
	wantParts(t, strings.Join(n.ready().Warnings, " "), "has not been reached since the start")
	offline := n.enqueue(client.Spec{Queue: "q"})
	up()
	if st := n.synced(); st.Epoch != 1 {
		t.Errorf("epoch %d, want 1", st.Epoch)
	}
	if ready := n.ready(); len(ready.Warnings) > 0 {
		t.Errorf("after the outage: %+v", ready)
	}
	n.kill()
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	n = p.serve()
	for _, job := range []client.Enqueued{before, during, offline} {
		if got := n.job(job.ID).State; got != "queued" {
			t.Errorf("job %s is %s, want queued", job.ID, got)
		}
	}
	p.verify()
}

// TestReplicationStopInAnOutage stops a node while the bucket is away: it says
// what is missing there, and the next start uploads it.
func TestReplicationStopInAnOutage(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	p.ok("init")
	n := p.serve()
	n.synced()
	up := s.Down()
	job := n.enqueue(client.Spec{Queue: "q"})
	if err := n.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := n.wait(40 * time.Second); code != 5 {
		t.Errorf("exit code %d, want 5", code)
	}
	wantParts(t, n.out.String(), "stopped, but", p.dir)
	up()
	n = p.serve()
	if st := n.synced(); st.Epoch != 1 {
		t.Errorf("epoch %d, want 1", st.Epoch)
	}
	n.job(job.ID)
	p.verify()
}

// session is the one that the node answers for.
func (n *node) session() string {
	n.t.Helper()
	var self client.Node
	n.get("/v1/node", &self)
	if self.Role != client.RolePrimary || self.Session == "" || self.URL != n.url {
		n.t.Errorf("node: %+v", self)
	}
	return self.Session
}
