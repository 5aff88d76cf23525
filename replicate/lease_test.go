package replicate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

const testTTL = 900 * time.Millisecond

func autoOptions(t *testing.T, node string, r Replica) Options {
	t.Helper()
	opts := appOptions(t.TempDir(), node, r)
	opts.Config.Failover, opts.Config.LeaseTTL = FailoverAuto, testTTL
	return opts
}

func TestLease(t *testing.T) {
	t.Run("ends a TTL after the last renewal was sent", func(t *testing.T) {
		l := &lease{ttl: time.Minute}
		now := time.Now()
		l.renewed(now.Add(-30*time.Second), now)
		for after, want := range map[time.Duration]bool{0: true, 29 * time.Second: true, 31 * time.Second: false} {
			if got := l.valid(now.Add(after)); got != want {
				t.Errorf("after %v: %v", after, got)
			}
		}
	})
	t.Run("in manual mode it stands", func(t *testing.T) {
		if !(&lease{}).valid(time.Now()) {
			t.Error("it does not")
		}
	})
}

func TestFailover(t *testing.T) {
	start := func(t *testing.T) (*s3server.Server, *app, Options) {
		t.Helper()
		s := s3server.Start(t)
		opts := autoOptions(t, "a", s3Replica(s.Proxy))
		initRoot(t, opts)
		return s, mustBoot(t, opts), opts
	}
	boot := func(t *testing.T, opts Options) <-chan *app {
		t.Helper()
		out := make(chan *app, 1)
		go func() {
			a, err := bootApp(t, opts)
			if err != nil {
				t.Error(err)
			}
			out <- a
		}()
		return out
	}
	t.Run("a standby waits while the primary lives, and takes over when it is gone", func(t *testing.T) {
		_, a, opts := start(t)
		standby := make(chan Lock, 10)
		other := autoOptions(t, "b", opts.Config.Replica)
		other.Standby = func(l Lock) { standby <- l }
		second := boot(t, other)
		if l := <-standby; l.Node != "a" {
			t.Errorf("waits for %q", l.Node)
		}
		a.add("one")
		if err := a.p.Replicated(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case <-second:
			t.Fatal("the standby took over from a primary that lives")
		case <-time.After(3 * testTTL):
		}
		gone := time.Now()
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		b := <-second
		if took := time.Since(gone); took < testTTL || took > time.Minute {
			t.Errorf("took over after %v", took)
		}
		wantEpoch(t, b, 2)
		wantItems(t, b, "one ")
		b.stop()
	})
	t.Run("a stop hands over at once", func(t *testing.T) {
		_, a, opts := start(t)
		a.add("one")
		second := boot(t, autoOptions(t, "b", opts.Config.Replica))
		time.Sleep(testTTL) // the standby is there
		a.stop()
		b := <-second
		wantItems(t, b, "one ")
		b.stop()
	})
	t.Run("a primary that is cut off knows its end before another begins", func(t *testing.T) {
		s := s3server.Start(t)
		cut := s.Another(t)
		opts := autoOptions(t, "a", s3Replica(cut))
		initRoot(t, opts)
		a := mustBoot(t, opts)
		a.add("one")
		if err := a.p.Replicated(ctx); err != nil {
			t.Fatal(err)
		}
		second := boot(t, autoOptions(t, "b", s3Replica(s.Proxy)))
		time.Sleep(testTTL)
		up := cut.Down()
		a.add("two")
		for a.p.Valid() {
			select {
			case <-second:
				t.Fatal("two primaries at once")
			case <-time.After(5 * time.Millisecond):
			}
		}
		b := <-second
		if a.p.Valid() {
			t.Error("the old primary is valid again")
		}
		c, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if err := a.p.Replicated(c); err == nil {
			t.Error("the old primary acknowledges")
		}
		up()
		select {
		case <-a.p.Lost():
			wantErr(t, a.p.Err(), ErrFenced)
		case <-time.After(20 * time.Second):
			t.Error("the old primary never learns of its end")
		}
		wantItems(t, b, "one ")
		if err := a.kill(); err != nil && !errors.Is(err, ErrFenced) {
			t.Error(err)
		}
		third := boot(t, opts) // it becomes a standby, and takes over in its turn
		time.Sleep(testTTL)
		b.add("three")
		b.stop()
		wantItems(t, <-third, "one three ")
	})
	t.Run("an outage of the bucket ends the right to act and nothing else", func(t *testing.T) {
		s, a, _ := start(t)
		up := s.Down()
		for a.p.Valid() {
			time.Sleep(5 * time.Millisecond)
		}
		up()
		for end := time.Now().Add(10 * time.Second); !a.p.Valid(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it is not the primary again")
			}
		}
		wantEpoch(t, a, 1)
		a.stop()
	})
}

// TestSwapWithoutAnswer: a write of lock.json that won without an answer must
// not pass for a later try of the same change. A lease would count from that
// one's time, while a standby counts from when it saw the first.
func TestSwapWithoutAnswer(t *testing.T) {
	srv := s3server.Start(t)
	s, err := openStore(ctx, s3Replica(srv.Proxy), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	first, err := swap(ctx, s, held{}, Lock{Lineage: newID()})
	if err != nil {
		t.Fatal(err)
	}
	srv.Inject(s3server.Fault{Op: s3server.Put, Part: lockKey, Do: s3server.CutAfter})
	blind := srv.Inject(s3server.Fault{Op: s3server.Get, Part: lockKey, Do: s3server.CutBefore})
	next := first.Lock
	next.Session = newID()
	if _, err := swap(ctx, s, first, next); err == nil || errors.Is(err, errCondition) {
		t.Fatalf("nothing was heard, and swap says %v", err)
	}
	blind()
	if _, err := swap(ctx, s, first, next); !errors.Is(err, errCondition) {
		t.Errorf("the second try: %v, want that it lost against the first", err)
	}
	now, err := readLock(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	won, err := swap(ctx, s, now, next)
	if err != nil || won.Nonce == now.Nonce || won.Session != next.Session {
		t.Errorf("a write whose answer alone is lost: %+v, %v", won, err)
	}
}
