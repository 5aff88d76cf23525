package queue

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

func TestMeters(t *testing.T) {
	clock := newFakeClock()
	q := openFake(t, filepath.Join(t.TempDir(), "q.db"), clock, Options{})
	ctx := context.Background()
	if _, _, err := q.Enqueue(ctx, Spec{Queue: "mail"}, Spec{Queue: "mail", MaxAttempts: 1}, Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	clock.pass(2 * time.Second)
	claims, _, err := q.Claim(ctx, ClaimRequest{Queues: []string{"mail"}, Max: 2, Worker: "w:1:a"})
	if err != nil || len(claims.Jobs) != 2 {
		t.Fatal(len(claims.Jobs), err)
	}
	clock.pass(200 * time.Millisecond)
	if _, _, err := q.Ack(ctx, []Ack{{Lease: claims.Jobs[0].Lease}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Fail(ctx, []Fail{{Lease: claims.Jobs[1].Lease, Error: "no"}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Cancel(ctx, claims.Jobs[1].ID+1); err != nil {
		t.Fatal(err)
	}
	all := q.Meters()
	if len(all) != 1 {
		t.Fatalf("%d queues", len(all))
	}
	m := all[0]
	if m.Queue != "mail" || m.Enqueued != 3 || m.Claimed != 2 || m.Done != 1 || m.Failed != 1 || m.Dead != 1 || m.Cancelled != 1 {
		t.Errorf("got %+v", m)
	}
	if m.Wait.Count != 2 || m.Wait.Sum != 4*time.Second || m.Wait.Buckets[5] != 2 { // up to 5 s
		t.Errorf("wait: %+v", m.Wait)
	}
	if m.Run.Count != 2 || m.Run.Sum != 400*time.Millisecond || m.Run.Buckets[3] != 2 { // up to 500 ms
		t.Errorf("run: %+v", m.Run)
	}
	if l := q.Load(); l.Rounds < 5 || l.Busy <= 0 || l.Locked != 0 {
		t.Errorf("load: %+v", l)
	}
}
