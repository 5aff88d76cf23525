package node_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
)

// TestStoppedWorkersLeaveNothing stops workers while the job that they wait for
// comes: it is done, or goes to the next worker at once, whoever of node and
// worker was first. Without that it would stay leased to nobody.
func TestStoppedWorkersLeaveNothing(t *testing.T) {
	const stops = 100
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1)
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	for name, cfg := range map[string]node.Config{"http": {}, "https": {TLSCert: certFile, TLSKey: keyFile}} {
		t.Run("over "+name, func(t *testing.T) {
			n := start(t, cfg)
			api, err := client.New(n.url, client.Options{TLS: &tls.Config{RootCAs: roots}})
			if err != nil {
				t.Fatal(err)
			}
			defer api.Close()
			states := map[string]int{}
			after := time.Millisecond // of the stop, which comes to be about when the node answers the claim
			for i := range stops {
				state := stopOnce(t, api, fmt.Sprintf("q%d", i), time.Duration(float64(after)*(0.7+0.6*rand.Float64())))
				states[state]++
				if state == "done" {
					after = after * 9 / 10
				} else {
					after = after * 11 / 10
				}
			}
			t.Logf("after %d stops: %v", stops, states)
			if n := states["running"]; n > 0 {
				t.Errorf("%d of %d jobs are leased to nobody", n, stops)
			}
		})
	}
}

// stopOnce stops a worker so long after the job was sent that it waits for, and
// returns the state that the job is in then.
func stopOnce(t *testing.T, api *client.Client, queue string, after time.Duration) string {
	t.Helper()
	handler := func(context.Context, client.Claimed) (any, error) { return nil, nil }
	w, err := client.NewWorker(api, client.WorkerOptions{Queues: []string{queue}, Default: handler, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return w.Run(ctx) })
	time.Sleep(5 * time.Millisecond) // its claim waits
	var id string
	g.Go(func() error {
		jobs, err := api.Enqueue(t.Context(), client.Spec{Queue: queue})
		if err == nil {
			id = jobs[0].ID
		}
		return err
	})
	for sent := time.Now(); time.Since(sent) < after; { // a sleep would be too long
		runtime.Gosched()
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		job, err := api.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State != "running" || time.Since(began) > time.Second { // the node takes back what it could not hand out
			return job.State
		}
	}
}
