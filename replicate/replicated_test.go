package replicate

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

func TestReplicated(t *testing.T) {
	t.Run("what was committed before it survives the loss of the machine", func(t *testing.T) {
		_, opts := newS3Root(t)
		opts.Config.SyncInterval = time.Hour // only those who wait make a round
		opts.Config.Window = 20 * time.Millisecond
		a := mustBoot(t, opts)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 20 {
			wg.Go(func() {
				mu.Lock()
				a.add(fmt.Sprint(i))
				mu.Unlock()
				if err := a.p.Replicated(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want := a.items()
		if err := a.p.Replicated(ctx); err != nil { // nothing new was committed
			t.Error(err)
		}
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		b := mustBoot(t, appOptions(t.TempDir(), "a", opts.Config.Replica))
		wantItems(t, b, want)
		b.stop()
	})
	t.Run("it is never given by a node whose place was taken while it uploaded", func(t *testing.T) {
		s, opts := newS3Root(t)
		opts.Config.SyncInterval = time.Hour
		a := mustBoot(t, opts)
		s.Inject(s3server.Fault{Op: s3server.Put, Part: "0000/", Do: s3server.Wait, Delay: time.Second, Times: 1})
		a.add("one")
		done := make(chan error, 1)
		go func() { done <- a.p.Replicated(ctx) }()
		time.Sleep(200 * time.Millisecond) // its upload is under way
		if _, err := TakeOver(ctx, opts.Config.Replica, opts.Logger); err != nil {
			t.Fatal(err)
		}
		b := mustBoot(t, appOptions(t.TempDir(), "b", opts.Config.Replica))
		wantErr(t, <-done, ErrFenced)
		wantErr(t, a.p.Replicated(ctx), ErrFenced)
		b.stop()
	})
	t.Run("an outage is an error in time, and what was committed is uploaded later", func(t *testing.T) {
		s, opts := newS3Root(t)
		a := mustBoot(t, opts)
		up := s.Down()
		a.add("one")
		c, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := a.p.Replicated(c); err == nil {
			t.Error("replicated without a bucket")
		}
		up()
		a.synced()
		a.stop()
	})
	t.Run("a folder cannot give it", func(t *testing.T) {
		dir := t.TempDir()
		opts := appOptions(dir, "a", Replica{Type: "file", Path: dir + "/replica"})
		opts.Embedded = true
		a := mustBoot(t, opts)
		a.add("one")
		wantErr(t, a.p.Replicated(ctx), ErrUnreplicated)
		a.stop()
	})
}
