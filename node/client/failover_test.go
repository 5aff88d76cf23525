package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"holdfast/node/client"
)

// pair is a primary and a standby, or the other way round, as far as enqueues
// tell.
type pair struct {
	urls    [2]string
	primary atomic.Int32
	epoch   atomic.Int64
	keys    [2]map[string]bool // only their own server touches them, one call at a time
	safe    atomic.Int64
	seq     atomic.Int64
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{keys: [2]map[string]bool{{}, {}}}
	p.epoch.Store(1)
	for i := range p.urls {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(i, w, r) }))
		t.Cleanup(s.Close)
		p.urls[i] = s.URL
	}
	return p
}

func (p *pair) serve(i int, w http.ResponseWriter, r *http.Request) {
	if int(p.primary.Load()) != i {
		w.Header().Set("Holdfast-Primary", p.urls[1-i])
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":{"code":"not_primary","message":"elsewhere"}}`)
		return
	}
	var spec client.Spec
	if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	p.keys[i][spec.IdempotencyKey] = true
	epoch := p.epoch.Load()
	w.Header().Set("Holdfast-Seq", fmt.Sprintf("%d.%d", epoch, p.seq.Add(1)))
	w.Header().Set("Holdfast-Replicated-Seq", fmt.Sprintf("%d.%d", epoch, p.safe.Load()))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"id":"1","queue":"q","type":"default","state":"queued"}`)
}

func TestFailover(t *testing.T) {
	ctx := context.Background()
	enqueue := func(t *testing.T, c *client.Client, key string) {
		t.Helper()
		if _, err := c.Enqueue(ctx, client.Spec{Queue: "q", IdempotencyKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a call goes on to the primary that a standby names", func(t *testing.T) {
		p := newPair(t)
		p.primary.Store(1)
		c, err := client.New(p.urls[0], client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		enqueue(t, c, "a")
		if !p.keys[1]["a"] || c.URL() != p.urls[1] {
			t.Errorf("keys %v, next call to %s", p.keys, c.URL())
		}
	})
	t.Run("a node that does not answer is left for another", func(t *testing.T) {
		p := newPair(t)
		p.primary.Store(1)
		c, err := client.New("http://127.0.0.1:1", client.Options{Others: p.urls[1:]})
		if err != nil {
			t.Fatal(err)
		}
		enqueue(t, c, "a")
	})
	t.Run("what the new primary may lack is sent again, what is replicated is not", func(t *testing.T) {
		p := newPair(t)
		c, err := client.New(p.urls[0], client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			enqueue(t, c, key)
			if key == "b" {
				p.safe.Store(2)
			}
		}
		p.primary.Store(1)
		p.epoch.Store(2)
		p.safe.Store(0)
		enqueue(t, c, "e")
		got := p.keys[1]
		if got["a"] || got["b"] || !got["c"] || !got["d"] || !got["e"] {
			t.Errorf("the new primary got %v, want c, d and e", got)
		}
	})
}
