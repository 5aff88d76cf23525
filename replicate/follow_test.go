package replicate

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superfly/ltx"
	"golang.org/x/sync/errgroup"

	"holdfast/tests/s3server"
)

// followed is a follower that runs.
type followed struct {
	*Follower
	t      *testing.T
	cancel context.CancelFunc
	group  errgroup.Group
}

func seqOfApp(ctx context.Context, db *sql.DB) (seq int64, err error) {
	err = db.QueryRowContext(ctx, "select seq from app").Scan(&seq)
	return seq, err
}

func followOptions(dir string, r Replica) FollowOptions {
	o := appOptions("", "follower", r)
	return FollowOptions{Dir: dir, Replica: r, Readers: true, Seq: seqOfApp, Poll: 50 * time.Millisecond, Logger: o.Logger}
}

func follow(t *testing.T, o FollowOptions) *followed {
	t.Helper()
	f, err := OpenFollower(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return runFollower(t, f)
}

func runFollower(t *testing.T, f *Follower) *followed {
	r := &followed{Follower: f, t: t}
	c, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	r.group.Go(func() error { return f.Run(c) })
	t.Cleanup(r.stop)
	return r
}

// stop ends the follower as SIGTERM does.
func (f *followed) stop() {
	f.cancel()
	if err := f.group.Wait(); err != nil {
		f.t.Errorf("follower: %v", err)
	}
}

// until waits until the served state satisfies ok.
func (f *followed) until(what string, ok func(Position) bool) Position {
	f.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		changed := f.Changed()
		p := f.Status().Position
		if ok(p) {
			return p
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // of a change of AsOf alone
		case <-deadline:
			f.t.Fatalf("%s: not within 30 s: %+v", what, f.Status())
		}
	}
}

// reaches waits for what a has committed.
func (f *followed) reaches(a *app) {
	f.t.Helper()
	f.until("what was committed", func(p Position) bool { return p.Epoch == a.p.Epoch() && p.Seq == a.seq() })
}

func (f *followed) wantItems(want string) {
	f.t.Helper()
	v, err := f.Acquire()
	if err != nil {
		f.t.Fatal(err)
	}
	defer v.Release()
	if got := itemsOf(f.t, v.DB); got != want {
		f.t.Errorf("items %q, want %q", got, want)
	}
	var check string
	if err := v.DB.QueryRow("pragma integrity_check").Scan(&check); err != nil || check != "ok" {
		f.t.Errorf("integrity_check: %s, %v", check, err)
	}
}

func copiesIn(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, copyPattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestFollow(t *testing.T) {
	t.Run("commits appear, one consistent state after the other", func(t *testing.T) {
		backends(t, func(t *testing.T, r Replica) {
			opts := newRoot(t, r)
			f := follow(t, followOptions(t.TempDir(), r))
			if _, err := f.Acquire(); !errors.Is(err, ErrNoCopy) {
				t.Errorf("before there is a copy: %v", err)
			}
			a := mustBoot(t, opts)
			a.add("one")
			f.reaches(a)
			f.wantItems("one ")
			v, err := f.Acquire()
			if err != nil {
				t.Fatal(err)
			}
			a.add("two")
			f.reaches(a)
			f.wantItems("one two ")
			if got := itemsOf(t, v.DB); got != "one " {
				t.Errorf("a view changed: %q", got)
			}
			v.Release()
			v.Release() // harmless
			a.add("three")
			f.reaches(a)
			f.wantItems("one two three ")
			a.stop()
			if got := len(copiesIn(t, f.opts.Dir)); got != 2 {
				t.Errorf("%d copies", got)
			}
		})
	})
	t.Run("an empty root is waited for and the wait is told", func(t *testing.T) {
		s := s3server.Start(t)
		f := follow(t, followOptions(t.TempDir(), s3Replica(s.Proxy)))
		f.problem("there is no lock.json")
		opts := newRoot(t, s3Replica(s.Proxy))
		f.problem("has never held a database")
		a := mustBoot(t, opts)
		f.reaches(a)
		f.problem("")
		a.stop()
	})
	t.Run("nothing but GET and LIST is sent, and in the steady state one of each for level 0", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		mine := s.Another(t)
		f := follow(t, followOptions(t.TempDir(), s3Replica(mine)))
		f.reaches(a)
		mine.Forget()
		checked := f.Status().CheckedAt
		for f.Status().CheckedAt.Sub(checked) < time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		for _, r := range mine.Requests() {
			if r.Op == s3server.Get && r.Key != "root/lock.json" || r.Op == s3server.List && r.Key != "root/e00000001/0000/" || r.Op != s3server.Get && r.Op != s3server.List {
				t.Errorf("sent %+v", r)
			}
		}
		a.stop()
	})
	t.Run("a position that the primary tells is fetched at once, without a list", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		mine := s.Another(t)
		o := followOptions(t.TempDir(), s3Replica(mine))
		o.Subscribed = time.Hour
		f := follow(t, o)
		f.reaches(a)
		f.Subscribed(true)
		f.until("a look at the root that found nothing", func(Position) bool { return !f.Status().CheckedAt.IsZero() })
		time.Sleep(2 * o.Poll)
		mine.Forget()
		for _, text := range []string{"one", "two", "three"} {
			a.add(text)
			a.synced()
			f.Poke(1, a.p.Status().TXID)
			f.reaches(a)
		}
		f.wantItems("one two three ")
		for _, r := range mine.Requests() {
			if r.Op != s3server.Get || r.Key == "root/lock.json" {
				t.Errorf("sent %+v", r)
			}
		}
		before := f.Status().AsOf
		time.Sleep(20 * time.Millisecond)
		f.Poke(1, a.p.Status().TXID)
		if after := f.Status().AsOf; time.Since(after) > time.Minute || !after.After(before) {
			t.Errorf("as of %v after the primary's word that there is no more, before it %v", after, before)
		}
		a.stop()
	})
	t.Run("the lease's renewals keep an idle copy fresh, and without them it grows old", func(t *testing.T) {
		s := s3server.Start(t)
		opts := autoOptions(t, "a", s3Replica(s.Proxy))
		initRoot(t, opts)
		a := mustBoot(t, opts)
		f := follow(t, followOptions(t.TempDir(), s3Replica(s.Proxy)))
		f.reaches(a)
		began := time.Now()
		p := f.until("fresh", func(p Position) bool { return p.AsOf.After(began.Add(testTTL)) })
		if time.Since(p.AsOf) < 0 {
			t.Errorf("as of %v, which is to come", p.AsOf)
		}
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		time.Sleep(testTTL)
		if p := f.Status().Position; p.AsOf.After(killed) {
			t.Errorf("as of %v, and the primary is dead since %v", p.AsOf, killed)
		}
	})
	t.Run("two processes cannot follow in one directory", func(t *testing.T) {
		r := Replica{Type: "file", Path: t.TempDir()}
		dir := t.TempDir()
		follow(t, followOptions(dir, r))
		_, err := OpenFollower(ctx, followOptions(dir, r))
		wantErr(t, err, ErrFollowed)
	})
}

// problem waits until the status tells of a problem, or of none.
func (f *followed) problem(part string) {
	f.t.Helper()
	f.until("problem "+part, func(Position) bool {
		p := f.Status().Problem
		return part == "" && p == "" || part != "" && strings.Contains(p, part)
	})
}

func TestFollowGoesOn(t *testing.T) {
	start := func(t *testing.T) (*app, *followed, Replica) {
		t.Helper()
		s := s3server.Start(t)
		opts := appOptions(t.TempDir(), "a", s3Replica(s.Proxy))
		opts.Config.Levels = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond}
		opts.Config.L0Retention = 200 * time.Millisecond
		opts.Config.Snapshot.Interval, opts.Config.Snapshot.Retention = time.Second, time.Second
		initRoot(t, opts)
		a := mustBoot(t, opts)
		a.add("one")
		f := follow(t, followOptions(t.TempDir(), opts.Config.Replica))
		f.reaches(a)
		return a, f, opts.Config.Replica
	}
	t.Run("where it stopped, without another download", func(t *testing.T) {
		a, f, _ := start(t)
		f.stop()
		f2, err := OpenFollower(ctx, f.opts)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := f2.Acquire(); err != nil || v.Position.Seq != 1 || v.Position.AsOf.IsZero() {
			t.Errorf("before the root was asked: %+v, %v", v, err)
		} else {
			v.Release()
		}
		a.add("two")
		g := runFollower(t, f2)
		g.reaches(a)
		g.wantItems("one two ")
		a.stop()
	})
	t.Run("but serves nothing of another root, as of one that is misspelled", func(t *testing.T) {
		a, f, r := start(t)
		f.stop()
		o := f.opts
		o.Replica.Path += "-misspelled"
		other := follow(t, o)
		if v, err := other.Acquire(); !errors.Is(err, ErrNoCopy) {
			t.Errorf("got %+v, %v, want ErrNoCopy", v, err)
		}
		other.stop()
		o.Replica = r
		back := follow(t, o)
		back.reaches(a)
		back.wantItems("one ")
		a.stop()
	})
	t.Run("after it was off for longer than the retention", func(t *testing.T) {
		a, f, r := start(t)
		at := f.Status().TXID
		f.stop()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			a.add("more")
			_, epochs, err := List(ctx, r, f.log)
			if err != nil {
				t.Fatal(err)
			}
			if gone(t, r, at+1) && epochs[0].MinTXID > at {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("retention deletes nothing: %+v", epochs)
			}
		}
		g := follow(t, f.opts)
		g.reaches(a)
		want := a.items()
		g.wantItems(want)
		a.stop()
	})
	t.Run("after the machine was restarted while it ran, with a new copy", func(t *testing.T) {
		a, f, _ := start(t)
		f.stop()
		for _, path := range copiesIn(t, f.opts.Dir) {
			var s copyState
			if _, err := readJSON(path+stateSuffix, &s); err != nil || !s.Closed {
				t.Fatalf("%+v, %v", s, err)
			}
			s.Closed, s.BootID = false, "another"
			if err := writeJSON(path+stateSuffix, s, true); err != nil {
				t.Fatal(err)
			}
			write(t, path, []byte("what the power left"))
		}
		g := follow(t, f.opts)
		g.reaches(a)
		g.wantItems("one ")
		a.stop()
	})
	t.Run("with a new copy where the old one cannot be read", func(t *testing.T) {
		a, f, _ := start(t)
		f.stop()
		for _, path := range copiesIn(t, f.opts.Dir) {
			data := read(t, path)
			copy(data, make([]byte, 4096))
			write(t, path, data)
		}
		g := follow(t, f.opts)
		g.reaches(a)
		g.wantItems("one ")
		a.stop()
	})
}

// gone reports whether no file leads on from a TXID but whole copies.
func gone(t *testing.T, r Replica, txid uint64) bool {
	t.Helper()
	s, err := openStoreToRead(ctx, r, quiet(appOptions("", "", r).Logger))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	entries, err := s.list(ctx, prefixOf(1)+"/")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		lo, hi, err := ltx.ParseFilename(filepath.Base(e.key))
		if err == nil && lo > 1 && uint64(lo) <= txid && uint64(hi) >= txid {
			return false
		}
	}
	return true
}

func TestFollowAcrossGaps(t *testing.T) {
	start := func(t *testing.T, level1 time.Duration) (*s3server.Server, *app, *followed) {
		t.Helper()
		s := s3server.Start(t)
		opts := appOptions(t.TempDir(), "a", s3Replica(s.Proxy))
		opts.Config.Levels = []time.Duration{level1}
		initRoot(t, opts)
		a := mustBoot(t, opts)
		f := follow(t, followOptions(t.TempDir(), s3Replica(s.Another(t))))
		f.reaches(a)
		return s, a, f
	}
	// lose makes a commit and deletes its file before the follower sees it, once
	// it is in level 1 if need be.
	lose := func(t *testing.T, s *s3server.Server, a *app, f *followed, compacted bool) {
		t.Helper()
		f.stop()
		a.add("lost")
		a.synced()
		name := ltx.TXID(a.p.Status().TXID)
		for end := time.Now().Add(20 * time.Second); compacted; time.Sleep(20 * time.Millisecond) {
			if found, _ := filepath.Glob(filepath.Join(s.Dir, "root", prefixOf(1), "0001", "*-"+name.String()+".ltx")); len(found) > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("level 1 is not compacted")
			}
		}
		if err := os.Remove(filepath.Join(s.Dir, "root", prefixOf(1), "0000", ltx.FormatFilename(name, name))); err != nil {
			t.Fatal(err)
		}
		a.add("after")
		a.synced()
	}
	t.Run("a file that was deleted is bridged from a higher level", func(t *testing.T) {
		s, a, f := start(t, 100*time.Millisecond)
		lose(t, s, a, f, true)
		f = follow(t, f.opts)
		f.reaches(a)
		f.wantItems("lost after ")
		a.stop()
	})
	t.Run("where nothing bridges, what there is is served and the gap is told, until a snapshot comes", func(t *testing.T) {
		s, a, f := start(t, time.Hour)
		a.add("one")
		f.reaches(a)
		lose(t, s, a, f, false)
		f = follow(t, f.opts)
		f.problem("transactions are missing")
		f.wantItems("one ")
		if st := f.Status(); st.Newest <= st.TXID || st.Problem == "" || st.ProblemAt.IsZero() {
			t.Errorf("%+v", st)
		}
		if _, err := a.p.stream.db.Snapshot(ctx); err != nil {
			t.Fatal(err)
		}
		f.reaches(a)
		f.wantItems("one lost after ")
		f.problem("")
		a.stop()
	})
	t.Run("a damaged file is passed by", func(t *testing.T) {
		s, a, f := start(t, 2*time.Second)
		f.stop()
		a.add("one")
		a.synced()
		name := ltx.TXID(a.p.Status().TXID)
		path := filepath.Join(s.Dir, "root", prefixOf(1), "0000", ltx.FormatFilename(name, name))
		data := read(t, path)
		data[len(data)/2] ^= 1
		write(t, path, data)
		f = follow(t, f.opts)
		f.problem("damaged")
		f.reaches(a)
		f.wantItems("one ")
		a.stop()
	})
	t.Run("a file that breaks off is read again", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		mine := s.Another(t)
		f := follow(t, followOptions(t.TempDir(), s3Replica(mine)))
		f.reaches(a)
		for _, bytes := range []int64{0, 50, 100, 106, 200} {
			mine.Inject(s3server.Fault{Op: s3server.Get, Part: "/0000/", Times: 2, Do: s3server.Truncate, Bytes: bytes})
			a.add("x")
			f.reaches(a)
		}
		f.wantItems("x x x x x ")
		a.stop()
	})
	t.Run("errors of the bucket are sat out and told", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		mine := s.Another(t)
		f := follow(t, followOptions(t.TempDir(), s3Replica(mine)))
		f.reaches(a)
		up := mine.Down()
		a.add("one")
		f.problem("lock.json")
		f.wantItems("")
		up()
		f.reaches(a)
		f.wantItems("one ")
		f.problem("")
		a.stop()
	})
}

func TestFollowAnotherEpoch(t *testing.T) {
	backends(t, func(t *testing.T, r Replica) {
		opts := newRoot(t, r)
		a := mustBoot(t, opts)
		a.add("one")
		f := follow(t, followOptions(t.TempDir(), r))
		f.reaches(a)
		before := copiesIn(t, f.opts.Dir)
		a.stop()
		b := mustBoot(t, appOptions(t.TempDir(), "b", r))
		b.add("two")
		f.reaches(b)
		f.wantItems("one two ")
		if p := f.Status().Position; p.Epoch != 2 {
			t.Errorf("%+v", p)
		}
		b.add("three")
		f.reaches(b)
		b.add("four")
		f.reaches(b)
		f.wantItems("one two three four ")
		for _, path := range copiesIn(t, f.opts.Dir) {
			if slices.Contains(before, path) {
				t.Errorf("%s of the epoch before is still there", path)
			}
		}
		b.stop()
		if r.Type != "file" {
			return
		}
		// Another root in its place.
		if err := os.RemoveAll(r.Path); err != nil {
			t.Fatal(err)
		}
		f.problem("there is no lock.json")
		f.wantItems("one two three four ")
		opts = appOptions(t.TempDir(), "c", r)
		initRoot(t, opts)
		c := mustBoot(t, opts)
		c.add("other")
		f.until("the other database", func(p Position) bool { return p.Epoch == 1 && p.Seq == 1 })
		f.wantItems("other ")
		c.stop()
	})
}
