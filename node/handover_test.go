package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// auto makes cfg one of automatic failover, with a hold that begin gives.
func (h *hold) auto(t *testing.T, begin func(ctx context.Context, opts replicate.Options) error) node.Config {
	cfg := node.WithAcquire(with(t, h.e), func(ctx context.Context, opts replicate.Options) (node.Primary, error) {
		if err := begin(ctx, opts); err != nil {
			return nil, err
		}
		opts.Taken(replicate.Lock{Session: "abc", Epoch: 3})
		return h, nil
	})
	cfg.Node = "a"
	cfg.Replication = replicate.DefaultConfig(cfg.Data)
	cfg.Replication.Replica = replicate.Replica{Type: replicate.TypeS3, Bucket: "bucket", Path: "root"}
	cfg.Replication.Failover, cfg.Replication.LeaseTTL = replicate.FailoverAuto, 3*time.Second
	return cfg
}

func handover(t *testing.T, n *running) (out client.Handover) {
	t.Helper()
	got := n.post("/v1/handover", "")
	if got.StatusCode != http.StatusOK || json.Unmarshal(got.body, &out) != nil {
		t.Fatalf("got %d: %s", got.StatusCode, got.body)
	}
	return out
}

func TestHandover(t *testing.T) {
	t.Run("waits for the answers under way, closes, and tells who is ready", func(t *testing.T) {
		e := newEngine()
		h := newHold(e)
		under, release := make(chan struct{}), make(chan struct{})
		e.enqueue = func([]queue.Spec) ([]queue.Enqueued, error) {
			close(under)
			<-release
			e.record("answer")
			return []queue.Enqueued{{ID: 7, State: queue.StateQueued}}, nil
		}
		var yielded time.Duration
		boots := 0
		n := start(t, h.auto(t, func(ctx context.Context, opts replicate.Options) error {
			if boots++; boots == 1 {
				return nil
			}
			yielded = opts.Yield
			opts.Standby(replicate.Lock{Node: "b", URL: "http://b", Epoch: 4, Ready: 3}) // boots still
			opts.Standby(replicate.Lock{Node: "b", URL: "http://b", Epoch: 4, Ready: 4})
			<-ctx.Done()
			return ctx.Err()
		}))
		var g errgroup.Group
		g.Go(func() error {
			if got := n.post("/v1/jobs", `{"queue":"mail"}`); got.StatusCode != http.StatusCreated {
				t.Errorf("the request under way got %d: %s", got.StatusCode, got.body)
			}
			return nil
		})
		<-under
		var out client.Handover
		g.Go(func() error { out = handover(t, n); return nil })
		for { // new requests go elsewhere while the old one is answered
			resp, err := n.client.Get(n.url + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if got := n.post("/v1/jobs", `{"queue":"mail"}`); !strings.Contains(string(got.body), string(client.CodeNotPrimary)) {
			t.Errorf("a new request got %d: %s", got.StatusCode, got.body)
		}
		close(release)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if !out.TakenOver || out.Node != "b" || out.URL != "http://b" || out.Epoch != 4 {
			t.Errorf("got %+v", out)
		}
		if yielded != 4*time.Second {
			t.Errorf("it leaves its lock to others for %v, want 4/3 of the TTL", yielded)
		}
		if got, want := strings.Join(e.recorded(), " "), "start drain answer close upload"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := n.post("/v1/handover", ""); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Holdfast-Primary") != "http://b" {
			t.Errorf("by a standby: %d, %s", got.StatusCode, got.body)
		}
	})
	t.Run("that fails is told, and the node goes on", func(t *testing.T) {
		e := newEngine()
		h := newHold(e)
		h.stop = &replicate.RemoteError{Kind: replicate.RemoteUnreachable}
		var boots atomic.Int64
		n := start(t, h.auto(t, func(_ context.Context, opts replicate.Options) error {
			boots.Add(1)
			if opts.Yield != 0 {
				t.Error("it leaves a lock alone that it did not close")
			}
			return nil
		}))
		if got := n.post("/v1/handover", ""); got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(got.body), "not given free") {
			t.Errorf("got %d: %s", got.StatusCode, got.body)
		}
		for end := time.Now().Add(10 * time.Second); boots.Load() < 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not boot again")
			}
		}
	})
	t.Run("ends with the node", func(t *testing.T) {
		h := newHold(newEngine())
		boots := 0
		waiting := make(chan struct{})
		n := start(t, h.auto(t, func(ctx context.Context, _ replicate.Options) error {
			if boots++; boots == 1 {
				return nil
			}
			close(waiting)
			<-ctx.Done()
			return ctx.Err()
		}))
		var g errgroup.Group
		g.Go(func() error {
			if got := n.post("/v1/handover", ""); got.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("got %d: %s", got.StatusCode, got.body)
			}
			return nil
		})
		<-waiting
		if err := n.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}
