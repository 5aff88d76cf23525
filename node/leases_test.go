package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

// leaseFile is a queue whose epoch is told.
func leaseFile(t *testing.T, path string, epoch int64) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), path, queue.Options{Epoch: epoch})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// leaseOf claims a job of the queue mail.
func leaseOf(t *testing.T, q *queue.Queue) string {
	t.Helper()
	if _, _, err := q.Enqueue(t.Context(), queue.Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	claims, _, err := q.Claim(t.Context(), queue.ClaimRequest{Queues: []string{"mail"}})
	if err != nil || len(claims.Jobs) != 1 {
		t.Fatalf("got %+v, %v", claims, err)
	}
	return claims.Jobs[0].Lease
}

// TestLeasesThatAreNotGood tells a token that no claim gave from a lease that
// was one: the first is a mistake of whoever sends it.
func TestLeasesThatAreNotGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	before := leaseFile(t, path, 1)
	earlier := leaseOf(t, before)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	q := leaseFile(t, path, 2)
	defer q.Close()
	elsewhere := leaseFile(t, filepath.Join(t.TempDir(), "holdfast.db"), 2)
	defer elsewhere.Close()
	f := over(t, q)
	f.real = true
	source := node.Source(q, nil)
	ended := leaseOf(t, q)
	id := strings.Split(ended, ".")[1] // which after a takeover is a large number
	call[client.Result](f, http.StatusOK, "POST", "/v1/jobs/"+id+"/ack", bodyf(`{"lease":%s}`, ended))

	const never, lost = "no lease that a claim here gave", "the lease is lost"
	for _, tt := range []struct {
		name, lease, id, part string
	}{
		{"one that ended", ended, id, lost},
		{"one of an earlier epoch", earlier, "1", lost},
		{"one of another node", leaseOf(t, elsewhere), id, never},
		{"garbage", "garbage", "", never},
		{"none at all", "", "", never},
		{"one of a job 0", "2.0.1.x", "", never},
		{"one that lacks its end", ended[:len(ended)-4], id, never},
		{"a long one", strings.Repeat("2.", 200), "", never},
	} {
		t.Run(tt.name+" fails alone, and says "+tt.part, func(t *testing.T) {
			wantLost := func(how string, result client.Result) {
				t.Helper()
				if result.ID != tt.id || !errors.Is(result.Err(), client.ErrLeaseLost) || !strings.Contains(result.Err().Error(), tt.part) {
					t.Errorf("%s: got %+v, %v", how, result, result.Err())
				}
			}
			for _, verb := range []string{"ack", "fail", "release", "snooze", "extend"} {
				good := leaseOf(t, q)
				body := fmt.Sprintf(`{"%ss":[{"lease":%q},{"lease":%q}]}`, verb, tt.lease, good)
				w := f.send("POST", "/v1/"+verb+"s", body)
				if tt.id == "" && strings.Contains(w.Body.String(), `"id":"0"`) {
					t.Errorf("%s: %s", verb, w.Body)
				}
				results := answerOf[client.Results](t, w).Results
				if len(results) != 2 || !results[1].OK {
					t.Fatalf("%s: got %+v", verb, results)
				}
				wantLost(verb, results[0])
			}
			carried := call[client.Claims](f, http.StatusOK, "POST", "/v1/claims", fmt.Sprintf(`{"queues":["none"],"acks":[{"lease":%q}],"fails":[{"lease":%q}]}`, tt.lease, tt.lease))
			wantLost("a carried ack", carried.Acks[0])
			wantLost("a carried fail", carried.Fails[0])
			wantLostInProcess(t, source, tt.lease, wantLost)
		})
	}
	t.Run("the path of a job says the same", func(t *testing.T) {
		for lease, part := range map[string]string{ended: lost, ended[:len(ended)-4]: never, "garbage": never, earlier: "a lease of job 1, and not of job " + id, "2.9.1.x": never} {
			for _, verb := range []string{"ack", "fail", "release", "snooze", "extend"} {
				wantError(t, f.send("POST", "/v1/jobs/"+id+"/"+verb, bodyf(`{"lease":%s}`, lease)), http.StatusConflict, client.CodeLeaseLost, part)
			}
		}
	})
}

// wantLostInProcess settles a lease by a source in the same process.
func wantLostInProcess(t *testing.T, source client.Source, lease string, wantLost func(string, client.Result)) {
	t.Helper()
	for how, do := range map[string]func(context.Context) ([]client.Result, error){
		"ack":  func(ctx context.Context) ([]client.Result, error) { return source.Ack(ctx, client.Ack{Lease: lease}) },
		"fail": func(ctx context.Context) ([]client.Result, error) { return source.Fail(ctx, client.Fail{Lease: lease}) },
		"release": func(ctx context.Context) ([]client.Result, error) {
			return source.Release(ctx, client.Release{Lease: lease})
		},
		"snooze": func(ctx context.Context) ([]client.Result, error) {
			return source.Snooze(ctx, client.Snoozing{Lease: lease})
		},
		"extend": func(ctx context.Context) ([]client.Result, error) {
			return source.Extend(ctx, client.Extend{Lease: lease})
		},
		"claim": func(ctx context.Context) ([]client.Result, error) {
			out, err := source.Claim(ctx, client.ClaimRequest{Queues: []string{"none"}, Fails: []client.Fail{{Lease: lease}}})
			return out.Fails, err
		},
	} {
		results, err := do(t.Context())
		if err != nil || len(results) != 1 {
			t.Fatalf("%s in process: got %+v, %v", how, results, err)
		}
		wantLost(how+" in process", results[0])
	}
}
