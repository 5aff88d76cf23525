package node_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestClient calls the API by the client that others use.
func TestClient(t *testing.T) {
	f := overQueue(t)
	server := httptest.NewServer(f.api)
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if _, err := c.UpdateQueue(ctx, "mail", client.QueuePatch{MaxDepth: new(int64(1))}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a patch of a queue that is not there: %v", err)
	}
	q, err := c.UpdateQueue(ctx, "mail", client.QueuePatch{
		Create: true, MaxDepth: new(int64(1)), MaxAttempts: new(7), RetentionMS: map[string]*int64{"done": new(int64(5000))},
	})
	if err != nil || q.Settings.MaxDepth != 1 || q.Settings.MaxAttempts != 7 || q.Settings.RetentionMS["done"] != 5000 {
		t.Fatalf("got %+v, %v", q, err)
	}
	jobs, err := c.Enqueue(ctx, client.Spec{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(ctx, client.Spec{Queue: "mail"}); !errors.Is(err, client.ErrQueueFull) {
		t.Errorf("a full queue: %v", err)
	}
	if q, err = c.UpdateQueue(ctx, "mail", client.QueuePatch{MaxAttempts: new(int), RetentionMS: map[string]*int64{"done": nil}}); err != nil ||
		q.Settings.MaxAttempts != 5 || q.Settings.RetentionMS["done"] != 604_800_000 || q.Settings.MaxDepth != 1 {
		t.Errorf("back to the defaults: %+v, %v", q.Settings, err)
	}
	if q, err = c.Pause(ctx, "mail"); err != nil || !q.Paused {
		t.Errorf("pause: %+v, %v", q, err)
	}
	if q, err = c.Resume(ctx, "mail"); err != nil || q.Paused {
		t.Errorf("resume: %+v, %v", q, err)
	}
	if minutes, err := c.Throughput(ctx, "mail", time.Now().Add(-time.Hour)); err != nil || len(minutes) == 0 || minutes[0].Enqueued != 1 {
		t.Errorf("throughput: %+v, %v", minutes, err)
	}
	claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}})
	if err != nil || len(claims.Jobs) != 1 {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	if job, err := c.Wait(ctx, jobs[0].ID, 20*time.Millisecond); err != nil || job.Ended() {
		t.Errorf("wait: %+v, %v", job, err)
	}
	if results, err := c.Snooze(ctx, client.Snoozing{Lease: claims.Jobs[0].Lease}); err != nil || !results[0].OK {
		t.Errorf("snooze: %+v, %v", results, err)
	}
	if claims, err = c.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}, WaitMS: 2000}); err != nil || len(claims.Jobs) != 1 {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	if _, err := c.Fail(ctx, client.Fail{Lease: claims.Jobs[0].Lease, Error: "oh", Fatal: true}); err != nil {
		t.Fatal(err)
	}
	if job, err := c.Wait(ctx, jobs[0].ID, time.Minute); err != nil || !job.Ended() {
		t.Errorf("wait: %+v, %v", job, err)
	}
	if step, err := c.RetryDead(ctx, client.DeadRequest{Queue: "mail", DryRun: true}); err != nil || step.Count != 1 {
		t.Errorf("dry run: %+v, %v", step, err)
	}
	if step, err := c.ArchiveDead(ctx, client.DeadRequest{}); err != nil || step.Count != 1 {
		t.Errorf("archive: %+v, %v", step, err)
	}
	n := 0
	for job, err := range c.Export(ctx) {
		if n++; err != nil || job.ArchivedAtMS == nil {
			t.Errorf("export: %+v, %v", job, err)
		}
	}
	if err := c.Delete(ctx, jobs[0].ID); err != nil || n != 1 {
		t.Errorf("delete: %v after %d", err, n)
	}
}
