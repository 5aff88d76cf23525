//go:build unix

package tests_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// TestKillPoints kills a node at each step of its boot, on each way that a boot
// can go, and of its stop: the next boot goes on, with all that was acknowledged.
func TestKillPoints(t *testing.T) {
	s := s3server.Start(t)
	start := []string{"before-base", "after-base"}
	declare := []string{"before-base", "after-base", "after-epoch", "after-ready"}
	swap := []string{"before-session", "before-swap", "after-swap", "before-node"}
	aside := []string{"after-aside", "after-restore"}
	for _, way := range []struct {
		name    string
		stop    syscall.Signal                 // ends the node before
		prepare func(t *testing.T, dir string) // changes its directory then
		points  []string
		epoch   int64 // of the node in the end, at least
	}{
		{"resume", syscall.SIGKILL, func(*testing.T, string) {}, slices.Concat(swap, start), 1},
		{"own file", syscall.SIGKILL, copyInPlace, slices.Concat(swap, declare), 2},
		{"take over", syscall.SIGTERM, wipe, slices.Concat(swap[1:3], aside, declare), 2},
		{"take over with old files", syscall.SIGTERM, forget, slices.Concat(swap[2:3], aside), 2},
	} {
		for _, point := range way.points {
			t.Run(way.name+", "+point, func(t *testing.T) {
				t.Parallel()
				// Beyond the first commits nothing is uploaded before the stop.
				p := newPlace(t, "a", bucket(s, strings.ReplaceAll(way.name+" "+point, " ", "-"))+"sync-interval: 1h\n")
				p.faulty()
				p.ok("init")
				n := p.serve()
				want := n.fill(30)
				if err := n.cmd.Process.Signal(way.stop); err != nil {
					t.Fatal(err)
				}
				n.wait(restoreTime)
				way.prepare(t, p.dir)
				p.arm(point, "kill")
				n = p.launch()
				if code := n.wait(2 * restoreTime); code != -1 || p.armed(point) {
					t.Fatalf("exit code %d, want that it was killed at %s", code, point)
				}
				n = p.serve()
				n.wantJobs(want)
				if got := n.epoch(); got < way.epoch {
					t.Errorf("epoch %d, want %d or more", got, way.epoch)
				}
				n.enqueue(client.Spec{Queue: "q"})
				n.terminate()
				p.verify()
				checkDatabase(t, n.databasePath())
			})
		}
	}
	for _, point := range []string{"before-close", "after-close"} {
		t.Run("stop, "+point, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "a", bucket(s, point)+"sync-interval: 1h\n")
			p.faulty()
			p.ok("init")
			n := p.serve()
			want := n.fill(30)
			p.arm(point, "kill")
			if code := n.terminate(); code != -1 {
				t.Fatalf("exit code %d, want that it was killed", code)
			}
			n = p.serve()
			n.wantJobs(want)
			if got := n.epoch(); got != 1 {
				t.Errorf("epoch %d, want 1", got)
			}
			n.terminate()
			p.verify()
		})
	}
}

func wipe(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// copyInPlace puts a copy in the place of a directory, as a restored volume is.
func copyInPlace(t *testing.T, dir string) {
	t.Helper()
	if err := os.Rename(dir, dir+"-before"); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(dir+"-before")); err != nil {
		t.Fatal(err)
	}
}

// forget leaves a database of which nobody knows where it comes from.
func forget(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "node.json")); err != nil {
		t.Fatal(err)
	}
}

// TestFailAtPoints makes single steps of a boot fail: the node says so and ends,
// or tries again, and the next one has everything.
func TestFailAtPoints(t *testing.T) {
	s := s3server.Start(t)
	for _, point := range []string{"before-swap", "after-aside", "after-restore", "after-base", "after-epoch", "after-ready"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "a", bucket(s, point))
			p.faulty()
			p.ok("init")
			n := p.serve()
			want := n.fill(30)
			n.terminate()
			wipe(t, p.dir)
			p.arm(point, "fail")
			n = p.launch()
			if code := n.wait(2 * restoreTime); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			wantParts(t, n.out.String(), "fault at "+point)
			n = p.serve()
			n.wantJobs(want)
			n.terminate()
			p.verify()
		})
	}
}

// standby starts a primary with jobs, and a standby whose copy has nearly all of
// them: the rest is uploaded when the primary stops.
func standby(t *testing.T) (a, b *node, place *place, want map[string]client.Job) {
	t.Helper()
	_, places, nodes := pair(t)
	a, b = nodes[0], nodes[1]
	a.fill(30)
	st := a.synced()
	eventually(t, restoreTime, "a copy as far as the primary", func() bool {
		self, ok := b.self()
		return ok && self.Follows != nil && self.Follows.Epoch == st.Epoch && self.Follows.TXID == st.TXID
	})
	a.enqueue(client.Spec{Queue: "q"})
	return a, b, places[1], a.jobs("q")
}

// TestStandbyKillPoints kills a standby at each step of its takeover: its next
// boot has everything.
func TestStandbyKillPoints(t *testing.T) {
	for _, point := range []string{
		"after-swap", "after-aside", "after-catch-up", "after-check", "after-keep", "after-forget", "after-wal", "after-restore", "before-base",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			a, b, place, want := standby(t)
			place.arm(point, "kill")
			a.terminate()
			if code := b.wait(2 * restoreTime); code != -1 || place.armed(point) {
				t.Fatalf("exit code %d, want that it was killed at %s", code, point)
			}
			b = place.serve()
			b.wantJobs(want)
			b.wantNoCopy()
			b.enqueue(client.Spec{Queue: "q"})
			b.terminate()
			place.verify()
			checkDatabase(t, b.databasePath())
		})
	}
}

// TestStandbyFailPoints makes steps of a standby's takeover fail: the replica is
// restored in the place of its copy.
func TestStandbyFailPoints(t *testing.T) {
	for _, point := range []string{"after-check", "after-keep", "after-wal"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			a, b, place, want := standby(t)
			place.arm(point, "fail")
			a.terminate()
			eventually(t, 2*restoreTime, "the standby as the primary", b.serves)
			wantParts(t, b.out.String(), "fault at "+point)
			b.wantJobs(want)
			b.wantNoCopy()
			b.terminate()
			place.verify()
		})
	}
}

// wantNoCopy checks that a primary has left nothing of what it followed with.
func (n *node) wantNoCopy() {
	n.t.Helper()
	if _, err := os.Stat(filepath.Join(filepath.Dir(n.databasePath()), "follow")); !errors.Is(err, fs.ErrNotExist) {
		n.t.Errorf("the copy of the standby: %v", err)
	}
}

// TestCloneThatCompares starts a copy of a directory whose node lives. It stops
// between its look at lock.json and its swap, while the other acknowledges one
// job more: what the copy then serves has that job, since it compares only when
// it has the root.
func TestCloneThatCompares(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	p.faulty()
	p.ok("init")
	a := p.serve()
	a.enqueue(client.Spec{Queue: "q"})
	a.synced()
	clone := newPlace(t, "a", bucket(s, "root"))
	clone.faulty()
	if err := os.CopyFS(clone.dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	clone.arm("before-swap", "stop")
	b := clone.launch()
	eventually(t, restoreTime, "the copy before its swap", func() bool { return !clone.armed("before-swap") })
	job := a.enqueue(client.Spec{Queue: "q", Durability: "replicated"})
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.waitReady(2*restoreTime + time.Since(b.started))
	if got := b.job(job.ID).State; got != "queued" {
		t.Errorf("job %s is %s, want queued", job.ID, got)
	}
	// The original finds out before it acknowledges anything again.
	err := call(&http.Client{Timeout: restoreTime}, http.MethodPost, a.url+"/v1/jobs", client.Spec{Queue: "q", Durability: "replicated"}, nil)
	if err == nil {
		t.Error("both acknowledge")
	}
	if code := a.wait(restoreTime); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
}
