//go:build unix

package tests_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// TestZombie stops a primary that compacts, takes snapshots and deletes old files
// all the time, and lets it go on when another has taken over: it writes and
// deletes nothing any more, and harms nothing.
func TestZombie(t *testing.T) {
	s := s3server.Start(t)
	dir := t.TempDir()
	a, b := newMember(t, s, dir, "a"), newMember(t, s, dir, "b")
	for _, m := range []*member{a, b} {
		text, err := os.ReadFile(m.place.config)
		if err != nil {
			t.Fatal(err)
		}
		hasty := strings.NewReplacer("interval: 3s", "interval: 200ms", "interval: 15s", "interval: 600ms", "l0-retention: 20s", "l0-retention: 1s",
			"interval: 40s, retention: 2m", "interval: 1s, retention: 2s")
		if err := os.WriteFile(m.place.config, []byte(hasty.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.place.ok("init")
	zombie := a.place.serve()
	next := b.place.launch()
	next.waitStandby()
	deletes := func(p *s3server.Proxy) int { return p.Count(s3server.Delete, "") }
	eventually(t, restoreTime, "a retention at work", func() bool {
		zombie.enqueue(client.Spec{Queue: "q"})
		return deletes(a.proxy) > 0
	})
	before := zombie.enqueue(client.Spec{Queue: "q", Durability: "replicated"})
	zombie.enqueue(client.Spec{Queue: "zombie"}) // on its disk alone, perhaps
	if err := zombie.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, restoreTime, "the next primary", next.serves)
	after := next.enqueue(client.Spec{Queue: "q", Durability: "replicated"})
	a.proxy.Forget()
	if err := zombie.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	zombie.waitStandby()
	removed := deletes(b.proxy)
	eventually(t, restoreTime, "the next primary's own retention", func() bool {
		next.enqueue(client.Spec{Queue: "q"})
		return deletes(b.proxy) > removed
	})
	// One request may have been under way. Deletes in bulk name no key: verify
	// below sees whose files they were.
	bulk := 0
	for _, r := range a.proxy.Requests() {
		if r.Op != s3server.Put && r.Op != s3server.Delete || r.Status/100 != 2 {
			continue
		}
		if r.Key == "" {
			bulk++
		} else if !strings.HasPrefix(r.Key, "root/e00000001/") {
			t.Errorf("the zombie did %v %s: %d", r.Op, r.Key, r.Status)
		}
	}
	if bulk > 1 {
		t.Errorf("the zombie deleted %d times after it woke", bulk)
	}
	zombie.kill()
	next.synced()
	seq := next.replication().Seq
	if v := b.place.verify(); v.Epoch != 2 || v.Seq < seq {
		t.Errorf("the replica is at %+v, want epoch 2 and seq %d", v, seq)
	}
	for _, job := range []client.Enqueued{before, after} {
		next.job(job.ID)
	}
}

// TestLockLost takes lock.json from under a node: it stops and says why, and
// begins nothing by itself, until the file is back.
func TestLockLost(t *testing.T) {
	// The server keeps notes beside each file, which must stay with it.
	away := func(t *testing.T, path string) (back func() error) {
		kept := filepath.Join(t.TempDir(), "lock.json")
		if err := os.Rename(path, kept); err != nil {
			t.Fatal(err)
		}
		return func() error { return os.Rename(kept, path) }
	}
	spoil := func(t *testing.T, path string) (back func() error) {
		kept, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte("{"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() error { return os.WriteFile(path, kept, 0o600) }
	}
	for name, harm := range map[string]func(*testing.T, string) (back func() error){"deleted": away, "garbage": spoil} {
		t.Run(name, func(t *testing.T) {
			s := s3server.Start(t)
			p := newPlace(t, "a", bucket(s, "root"))
			p.ok("init")
			n := p.serve()
			job := n.enqueue(client.Spec{Queue: "q", Durability: "replicated"})
			back := harm(t, filepath.Join(s.Dir, "root", "lock.json"))
			hc := &http.Client{Timeout: restoreTime}
			if err := call(hc, http.MethodPost, n.url+"/v1/jobs", client.Spec{Queue: "q", Durability: "replicated"}, nil); err == nil {
				t.Error("it acknowledges without a lock.json")
			}
			if code := n.wait(restoreTime); code != 6 && code != 4 {
				t.Errorf("exit code %d, want 4 or 6", code)
			}
			wantParts(t, n.out.String(), "lock.json")
			p.wantExit(6, "lock.json")
			if err := back(); err != nil {
				t.Fatal(err)
			}
			n = p.serve()
			n.job(job.ID)
			n.terminate()
			p.verify()
		})
	}
}

// TestRestoreFromTruncatedAnswers brings a database back through a line that
// breaks off now and again.
func TestRestoreFromTruncatedAnswers(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	p.ok("init")
	n := p.serve()
	want := n.fill(200)
	n.terminate()
	wipe(t, p.dir)
	s.Inject(s3server.Fault{Op: s3server.Get, Part: "/0000/", Do: s3server.Truncate, Bytes: 150, Times: 2})
	n = p.serve()
	n.wantJobs(want)
	n.terminate()
	checkDatabase(t, n.databasePath())
	p.verify()
}

// TestSQLiteVersion: older versions can corrupt a database by a reset of its WAL.
func TestSQLiteVersion(t *testing.T) {
	n := serve(t, t.TempDir())
	var v client.Version
	n.get("/version", &v)
	least := []int{3, 51, 3}
	parts := strings.Split(v.SQLite, ".")
	for i, want := range least {
		got := 0
		if i < len(parts) {
			got, _ = strconv.Atoi(parts[i]) // 0 of what is no number
		}
		if got > want {
			return
		}
		if got < want {
			t.Fatalf("SQLite %s, want 3.51.3 or newer", v.SQLite)
		}
	}
}
