package node_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/node"
	"holdfast/node/client"
)

// TestFreshnessOfAPrimary: what names a commit may be sent to any node.
func TestFreshnessOfAPrimary(t *testing.T) {
	f := overQueue(t)
	f.enqueue(`{"queue":"mail"}`)
	at := f.send("GET", "/v1/health", "").Header().Get("Holdfast-Seq")
	for _, tt := range []struct {
		outcome string
		query   string
		status  int
		says    string
	}{
		{"its own commit is there", "?min_seq=" + at, http.StatusOK, ""},
		{"an earlier epoch is over", "?min_seq=0.99999", http.StatusOK, ""},
		{"it is never old", "?max_lag_ms=0", http.StatusOK, ""},
		{"a commit that it does not have is refused", "?min_seq=1.99999", http.StatusServiceUnavailable, "stale"},
		{"an epoch to come is refused", "?min_seq=2.0", http.StatusServiceUnavailable, "stale"},
		{"half a commit is invalid", "?min_seq=1", http.StatusBadRequest, "epoch.seq"},
		{"a sign is invalid", "?min_seq=1.-1", http.StatusBadRequest, "epoch.seq"},
		{"a negative age is invalid", "?max_lag_ms=-1", http.StatusBadRequest, "max_lag_ms"},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			w := f.send("GET", "/v1/queues"+tt.query, "")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("got %d, %s", w.Code, w.Body)
			}
		})
	}
}

// TestPositions: a stream of positions alone says again that there is nothing
// new.
func TestPositions(t *testing.T) {
	n := start(t, node.Config{})
	c, err := client.New(n.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seen []client.Position
	for at, err := range c.Positions(t.Context(), 250*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, at); len(seen) == 3 {
			if _, err := c.Enqueue(t.Context(), client.Spec{Queue: "mail"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) >= 3 && at.ReplicatedSeq != nil && *at.ReplicatedSeq >= 1 {
			return // its upload was told
		}
		if len(seen) > 200 {
			t.Fatalf("after the enqueue: %+v", seen[len(seen)-3:])
		}
	}
}
