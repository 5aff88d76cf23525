package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestClaimCalledBack ends the context of a claim that waits.
func TestClaimCalledBack(t *testing.T) {
	t.Run("over http", func(t *testing.T) { claimCalledBack(t, false) })
	t.Run("over https", func(t *testing.T) { claimCalledBack(t, true) })
}

func claimCalledBack(t *testing.T, secure bool) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	answer := http.StatusOK
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		arrived <- struct{}{}
		select {
		case <-r.Context().Done(): // the node sees that the claim is called back
		case <-release:
		}
		w.WriteHeader(answer)
		if answer == http.StatusOK {
			_, _ = w.Write([]byte(`{"jobs":[{"id":"7","lease":"1.7.1.x"}]}`))
		}
	}))
	opts := client.Options{}
	if secure {
		srv.EnableHTTP2 = true // which a node offers too
		srv.StartTLS()
		opts.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
		opts.TLS.NextProtos = []string{"h2"} // which claims do not heed
	} else {
		srv.Start()
	}
	defer srv.Close()
	api, err := client.New(srv.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	claim := func() (client.Claims, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		var out client.Claims
		var err error
		go func() {
			defer close(done)
			out, err = api.Claim(ctx, client.ClaimRequest{Queues: []string{"q"}, WaitMS: 60_000})
		}()
		<-arrived
		cancel()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("the claim goes on")
			close(release)
			<-done
		}
		return out, err
	}
	t.Run("an answer that was under way is returned with its jobs", func(t *testing.T) {
		out, err := claim()
		if err != nil || len(out.Jobs) != 1 || out.Jobs[0].ID != "7" {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("one that the node gave up ends with the context's error", func(t *testing.T) {
		answer = http.StatusServiceUnavailable
		if out, err := claim(); !errors.Is(err, context.Canceled) || len(out.Jobs) != 0 {
			t.Errorf("got %+v, %v", out, err)
		}
	})
	t.Run("the next claim has a connection of its own", func(t *testing.T) {
		answer = http.StatusOK
		if out, err := claim(); err != nil || len(out.Jobs) != 1 {
			t.Errorf("got %+v, %v", out, err)
		}
	})
}
