package replicate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

// standbyOf boots a node in auto mode that has to wait, and returns when its copy
// is as far as a is.
func standbyOf(t *testing.T, a *app, opts Options) <-chan *app {
	t.Helper()
	statuses := make(chan func() FollowStatus, 10)
	opts.Following = func(status func() FollowStatus) { statuses <- status }
	out := make(chan *app, 1)
	go func() {
		b, err := bootApp(t, opts)
		if err != nil {
			t.Error(err)
		}
		out <- b
	}()
	status := <-statuses
	a.synced()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if st := status(); st.Epoch == a.p.Epoch() && st.TXID == a.p.Status().TXID {
			return out
		}
		if time.Now().After(end) {
			t.Fatalf("the standby does not follow: %+v", status())
		}
	}
}

// wantPromoted checks that nothing but the comparison was fetched for a takeover.
func wantPromoted(t *testing.T, p *s3server.Proxy, yes bool) {
	t.Helper()
	whole := 0
	for _, r := range p.Requests() {
		if r.Op == s3server.Get && strings.HasPrefix(r.Key, "root/"+prefixOf(1)+"/") && strings.Contains(r.Key, "/0000000000000001-") {
			whole++
		}
	}
	if (whole == 0) != yes {
		t.Errorf("a whole copy was fetched %d times, promoted: %v", whole, yes)
	}
}

func wantNoCopy(t *testing.T, opts Options) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(opts.Dir, followName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a primary keeps the copy of a standby: %v", err)
	}
}

func TestStandbyFollows(t *testing.T) {
	s := s3server.Start(t)
	opts := autoOptions(t, "a", s3Replica(s.Proxy))
	initRoot(t, opts)
	a := mustBoot(t, opts)
	a.add("one")
	mine := s.Another(t)
	other := autoOptions(t, "b", s3Replica(mine))
	second := standbyOf(t, a, other)
	a.add("two")
	a.synced()
	mine.Forget()
	if err := a.kill(); err != nil {
		t.Fatal(err)
	}
	b := <-second
	wantEpoch(t, b, 2)
	wantItems(t, b, "one two ")
	wantPromoted(t, mine, true)
	wantNoCopy(t, other)
	if b.p.parent.ParentTXID != a.p.Status().TXID {
		t.Errorf("goes on from %d, the last of the parent is %d", b.p.parent.ParentTXID, a.p.Status().TXID)
	}
	t.Run("and the node that comes back is a standby with its old files until it takes over", func(t *testing.T) {
		b.add("three")
		first := standbyOf(t, b, opts)
		if _, err := os.Stat(opts.Database); err != nil {
			t.Error(err)
		}
		b.stop()
		a = <-first
		wantEpoch(t, a, 3)
		wantItems(t, a, "one two three ")
		wantNoCopy(t, opts)
		if found, _ := filepath.Glob(filepath.Join(opts.Dir, "aside", "*", "app.db")); len(found) != 1 {
			t.Errorf("set aside: %v", found)
		}
	})
	t.Run("after a stop the same epoch goes on", func(t *testing.T) {
		a.stop()
		a = mustBoot(t, opts)
		wantEpoch(t, a, 3)
		wantItems(t, a, "one two three ")
		a.add("four")
		a.stop()
	})
	t.Run("the replica can be restored", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "restored.db")
		if _, err := Restore(ctx, RestoreOptions{Replica: opts.Config.Replica, Output: out, Logger: opts.Logger, Full: true}); err != nil {
			t.Fatal(err)
		}
		if s, err := inspectApp(ctx, out); err != nil || s.Seq != 4 {
			t.Errorf("restored %+v, %v", s, err)
		}
	})
}

func TestStandbyWithACopyThatIsNoGood(t *testing.T) {
	for name, spoil := range map[string]func(path string, data []byte) []byte{
		"a damaged page": func(_ string, data []byte) []byte {
			for i := 4096; i < len(data); i++ {
				data[i] = 0xaa
			}
			return data
		},
		"a file that was cut": func(_ string, data []byte) []byte { return data[:4096] },
	} {
		t.Run(name+" is found and the replica restored", func(t *testing.T) {
			s := s3server.Start(t)
			opts := autoOptions(t, "a", s3Replica(s.Proxy))
			initRoot(t, opts)
			a := mustBoot(t, opts)
			a.add("one")
			mine := s.Another(t)
			other := autoOptions(t, "b", s3Replica(mine))
			prepareStandby(t, a, other)
			for _, path := range copiesIn(t, filepath.Join(other.Dir, followName)) {
				write(t, path, spoil(path, read(t, path)))
			}
			a.stop()
			mine.Forget()
			restored := false
			other.Progress = func(Progress) {
				restored = true
				wantNoCopy(t, other) // the disk may have room for one database
			}
			b := mustBoot(t, other)
			if !restored {
				t.Error("no restore was told of")
			}
			wantEpoch(t, b, 2)
			wantItems(t, b, "one ")
			wantPromoted(t, mine, false)
			wantNoCopy(t, other)
			b.stop()
		})
	}
}

// prepareStandby leaves the copy of a standby that was as far as a and stopped.
func prepareStandby(t *testing.T, a *app, opts Options) {
	t.Helper()
	a.synced()
	f, err := OpenFollower(ctx, FollowOptions{Dir: filepath.Join(opts.Dir, followName), Replica: opts.Config.Replica, Logger: opts.Logger})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.catchUp(ctx), f.close()); err != nil {
		t.Fatal(err)
	}
}
