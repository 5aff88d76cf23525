package tests_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestAlertWebhook makes jobs die, lets the webhook fail at first, and repairs
// the queue.
func TestAlertWebhook(t *testing.T) {
	got := make(chan map[string]any, 100)
	var tries atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		got <- body
	}))
	t.Cleanup(server.Close)
	n := serve(t, filepath.Join(t.TempDir(), "data"), "--alert-webhook", server.URL, "--alert-dead", "1")
	c := clientOf(t, n, "")
	if _, err := c.Enqueue(t.Context(), client.Spec{Queue: "mail"}, client.Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	claims, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{"mail"}, Max: 2, Worker: "w:1:a"})
	if err != nil || len(claims.Jobs) != 2 {
		t.Fatal(len(claims.Jobs), err)
	}
	for _, job := range claims.Jobs {
		if _, err := c.Fail(t.Context(), client.Fail{Lease: job.Lease, Error: "no", Fatal: true}); err != nil {
			t.Fatal(err)
		}
	}
	next := func() map[string]any {
		t.Helper()
		select {
		case body := <-got:
			return body
		case <-time.After(time.Minute):
			t.Fatal("nothing was told within a minute")
			return nil
		}
	}
	if b := next(); b["status"] != "firing" || b["alert"] != "dead_jobs" || b["queue"] != "mail" || b["value"] != 2.0 || b["url"] != n.url {
		t.Errorf("got %v", b)
	}
	if step, err := c.RetryDead(t.Context(), client.DeadRequest{Queue: "mail"}); err != nil || step.Count != 2 {
		t.Fatal(step, err)
	}
	if b := next(); b["status"] != "resolved" || b["alert"] != "dead_jobs" || b["queue"] != "mail" {
		t.Errorf("got %v", b)
	}
}
