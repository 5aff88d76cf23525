package replicate

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

// What the model's counterexamples are about, on the real code and a real S3
// server: each cuts a boot at a point where a rule matters.

func TestCutBoots(t *testing.T) {
	t.Run("a kill after the swap was sent, its answer lost", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.synced()
		a.p.lose(os.ErrClosed)
		a.add("two")
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		restartMachine(t, opts)
		lost := s.Inject(s3server.Fault{Op: s3server.Put, Part: lockKey, Do: s3server.CutAfter})
		gone := s.Inject(s3server.Fault{Op: s3server.Get, Part: lockKey, After: 1, Do: s3server.Answer, Status: 403, Code: "AccessDenied"})
		if _, err := bootApp(t, opts); err == nil {
			t.Fatal("booted without knowing whether the swap took effect")
		}
		lost()
		gone()
		if lock, err := ReadLock(ctx, opts.Config.Replica, opts.Logger); err != nil || lock.Epoch != 2 || lock.Ready != 1 {
			t.Fatalf("lock %+v, %v: the swap did not take effect", lock, err)
		}
		a = mustBoot(t, opts)
		wantEpoch(t, a, 3)
		wantItems(t, a, "one two ")
		a.stop()
	})
	t.Run("a kill before ready: what was acknowledged locally is there", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.synced()
		a.p.lose(os.ErrClosed)
		a.add("two")
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		restartMachine(t, opts)
		for _, part := range []string{"epoch.json", "0000/"} { // before epoch.json, and before the base is complete
			up := s.Inject(s3server.Fault{Op: s3server.Put, Part: part, Do: s3server.Answer, Status: 403, Code: "AccessDenied"})
			if _, err := bootApp(t, opts); err == nil {
				t.Fatal("booted although it could not become ready")
			}
			up()
		}
		a = mustBoot(t, opts)
		wantEpoch(t, a, 4)
		wantItems(t, a, "one two ")
		a.stop()
	})
	t.Run("a kill before ready of a node that had restored", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.stop()
		fresh := appOptions(t.TempDir(), "a", opts.Config.Replica)
		up := s.Inject(s3server.Fault{Op: s3server.Put, Part: "epoch.json", Do: s3server.Answer, Status: 403, Code: "AccessDenied"})
		if _, err := bootApp(t, fresh); err == nil {
			t.Fatal("booted although it could not become ready")
		}
		up()
		b := mustBoot(t, fresh)
		wantEpoch(t, b, 3)
		wantItems(t, b, "one ")
		b.stop()
	})
	t.Run("a file without node.json is not trusted", func(t *testing.T) {
		_, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.stop()
		if err := os.Remove(filepath.Join(opts.Dir, nodeFileName)); err != nil {
			t.Fatal(err)
		}
		a = mustBoot(t, opts)
		wantEpoch(t, a, 2)
		wantItems(t, a, "one ")
		a.stop()
	})
	t.Run("of two clones of a directory one goes on and the other does not", func(t *testing.T) {
		_, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.synced()
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		clone := opts
		clone.Dir = filepath.Join(t.TempDir(), "clone")
		clone.Database = filepath.Join(clone.Dir, "app.db")
		copyTree(t, opts.Dir, clone.Dir)
		b := mustBoot(t, clone)
		wantEpoch(t, b, 2) // a copy is not surely the directory that served
		b.add("two")
		b.synced()
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"session":%q}`, b.p.Status().Session)
		}))
		defer web.Close()
		setURL(t, opts, web.URL)
		_, err := bootApp(t, opts)
		wantErr(t, err, ErrHeld)
		wantItems(t, b, "one two ")
	})
}

// setURL makes lock.json say where its holder answers. The holder's own version
// of it is old from then on, so it must not write lock.json again.
func setURL(t *testing.T, opts Options, url string) {
	t.Helper()
	s, err := openStore(ctx, opts.Config.Replica, opts.Logger)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	lock, err := readLock(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	next := lock.Lock
	next.URL = url
	if _, err := swap(ctx, s, lock, next); err != nil {
		t.Fatal(err)
	}
}

func TestOffline(t *testing.T) {
	t.Run("a node that served goes on without the root and catches up", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.synced()
		up := s.Down()
		a.add("two")
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		a = mustBoot(t, opts)
		if !a.p.Status().Offline {
			t.Error("status does not say that it serves without the root")
		}
		a.add("three")
		up()
		a.synced()
		wantEpoch(t, a, 1)
		wantItems(t, a, "one two three ")
		a.stop()
		b := mustBoot(t, appOptions(t.TempDir(), "a", opts.Config.Replica))
		wantItems(t, b, "one two three ")
		b.stop()
	})
	t.Run("one that never served waits, and says so", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.stop()
		fresh := appOptions(t.TempDir(), "a", opts.Config.Replica)
		up := s.Down()
		waits := make(chan error, 100)
		fresh.Waiting = func(err error) {
			if len(waits) == 0 {
				waits <- err
			}
			up()
		}
		b := mustBoot(t, fresh)
		if err := <-waits; !unavailable(err) {
			t.Errorf("waited for %v", err)
		}
		wantItems(t, b, "one ")
		b.stop()
	})
	t.Run("one that lost its place meanwhile is told", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		a.add("one")
		a.synced()
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := TakeOver(ctx, opts.Config.Replica, opts.Logger); err != nil {
			t.Fatal(err)
		}
		b := mustBoot(t, appOptions(t.TempDir(), "b", opts.Config.Replica))
		up := s.Down()
		a = mustBoot(t, opts) // it cannot know
		up()
		select {
		case <-a.p.Lost():
			wantErr(t, a.p.Err(), ErrFenced)
		case <-time.After(20 * time.Second):
			t.Error("the node that lost its place goes on")
		}
		b.stop()
	})
}

func TestZombie(t *testing.T) {
	_, opts := newS3Root(t)
	a := mustBoot(t, opts)
	a.add("one")
	a.synced()
	if _, err := TakeOver(ctx, opts.Config.Replica, opts.Logger); err != nil {
		t.Fatal(err)
	}
	b := mustBoot(t, appOptions(t.TempDir(), "b", opts.Config.Replica))
	b.add("b-two")
	b.synced()
	a.p.stream.askedAt = time.Time{} // as after a pause
	a.add("a-two")
	select {
	case <-a.p.Lost():
		wantErr(t, a.p.Err(), ErrFenced)
	case <-time.After(10 * time.Second):
		t.Fatal("the zombie goes on")
	}
	if err := a.p.stream.round(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("the zombie still uploads: %v", err)
	}
	if _, err := a.p.stream.db.Compact(ctx, 1); !errors.Is(err, ErrFenced) {
		t.Errorf("the zombie still compacts: %v", err)
	}
	if _, err := a.p.stream.db.Snapshot(ctx); !errors.Is(err, ErrFenced) {
		t.Errorf("the zombie still takes snapshots: %v", err)
	}
	b.add("b-three")
	b.stop()
	c := mustBoot(t, appOptions(t.TempDir(), "c", opts.Config.Replica))
	wantItems(t, c, "one b-two b-three ")
	c.stop()
	t.Run("its directory is set aside when it comes back", func(t *testing.T) {
		_ = a.kill()
		again := mustBoot(t, opts)
		wantItems(t, again, "one b-two b-three ")
		again.stop()
		if found, _ := filepath.Glob(filepath.Join(opts.Dir, "aside", "*", "app.db")); len(found) != 1 {
			t.Errorf("set aside: %v", found)
		}
	})
}

func TestFaultyRoot(t *testing.T) {
	for name, f := range map[string]s3server.Fault{
		"a storm of 503":                    {Op: s3server.Put, Do: s3server.Answer, Status: 503, Times: 20},
		"answers lost after success":        {Op: s3server.Put, Part: "0000/", Do: s3server.CutAfter, Times: 5},
		"connections cut before":            {Do: s3server.CutBefore, Times: 10},
		"keys without the right to delete":  {Op: s3server.Delete, Do: s3server.Answer, Status: 403, Code: "AccessDenied"},
		"answers that come after a second":  {Op: s3server.Put, Do: s3server.Wait, Delay: time.Second, Times: 3},
		"a server that fails now and again": {Do: s3server.Answer, Status: 500, After: 3, Times: 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, opts := newS3Root(t)
			opts.Config.Levels = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}
			opts.Config.L0Retention = 100 * time.Millisecond
			a := mustBoot(t, opts)
			remove := s.Inject(f)
			want := ""
			for i := range 40 {
				text := fmt.Sprint("item-", i)
				a.add(text)
				want += text + " "
				time.Sleep(10 * time.Millisecond) // spreads them over uploads and compactions
			}
			remove()
			a.synced()
			if err := a.kill(); err != nil {
				t.Fatal(err)
			}
			b := mustBoot(t, appOptions(t.TempDir(), "a", opts.Config.Replica))
			wantItems(t, b, want)
			b.stop()
		})
	}
	t.Run("keys without the right to list are refused at boot", func(t *testing.T) {
		s, opts := newS3Root(t)
		s.Inject(s3server.Fault{Op: s3server.List, Do: s3server.Answer, Status: 403, Code: "AccessDenied"})
		_, err := bootApp(t, opts)
		var r *RemoteError
		if !errors.As(err, &r) || r.Kind != RemoteForbidden || !strings.Contains(err.Error(), "list") {
			t.Errorf("got %v", err)
		}
	})
}

// TestRestoreWhileCompacting: a restore succeeds at every moment while the
// prefix is compacted, snapshots are taken and old files go.
func TestRestoreWhileCompacting(t *testing.T) {
	backends(t, func(t *testing.T, r Replica) {
		opts := newRoot(t, r)
		opts.Config.Levels = []time.Duration{60 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}
		opts.Config.L0Retention = 50 * time.Millisecond
		opts.Config.Snapshot = Snapshot{Interval: 500 * time.Millisecond, Retention: time.Second}
		a := mustBoot(t, opts)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 300 {
				a.add(fmt.Sprint("item-", i))
				time.Sleep(10 * time.Millisecond) // a steady load, not a burst
			}
		}()
		restores, last := 0, int64(0)
		for running := true; running; restores++ {
			select {
			case <-done:
				running = false
			default:
			}
			out := filepath.Join(t.TempDir(), fmt.Sprint("r", restores, ".db"))
			if _, err := Restore(ctx, RestoreOptions{Replica: r, Output: out, Logger: opts.Logger, Full: true}); err != nil {
				t.Fatalf("restore %d: %v", restores, err)
			}
			state, err := inspectApp(ctx, out)
			if err != nil || state.Seq < last {
				t.Fatalf("restore %d: seq %d after %d, %v", restores, state.Seq, last, err)
			}
			last = state.Seq
		}
		if restores < 10 {
			t.Errorf("only %d restores", restores)
		}
		a.stop()
		if files, err := os.ReadDir(filepath.Join(opts.Dir, "ltx", prefixOf(1), "ltx", "0")); err != nil || len(files) > 250 {
			t.Errorf("%d local files of level 0 are left, %v: retention does not work", len(files), err)
		}
	})
}

func TestIdle(t *testing.T) {
	s, opts := newS3Root(t)
	opts.Config.Levels = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond}
	a := mustBoot(t, opts)
	a.add("one")
	a.synced()
	time.Sleep(500 * time.Millisecond) // the work that follows an upload
	s.Forget()
	time.Sleep(700 * time.Millisecond)
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests while idle: %+v", n, s.Requests())
	}
	a.stop()
}

func TestWithoutConditionalWrites(t *testing.T) {
	s := s3server.Start(t)
	s.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional})
	opts := newRoot(t, s3Replica(s.Proxy))
	a := mustBoot(t, opts)
	if _, ok := a.p.boot.store.(unconditional); !ok {
		t.Error("the provider's fault was not found out")
	}
	a.add("one")
	a.stop()
	_, err := bootApp(t, appOptions(t.TempDir(), "a", opts.Config.Replica))
	if err != nil {
		t.Error(err)
	}
}
