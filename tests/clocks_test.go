//go:build unix

package tests_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

const day = 24 * time.Hour

var clockSteps = []time.Duration{time.Hour, -time.Hour, day, -day, 365 * day, -365 * day}

// TestFailoverClocks sets the wall clocks of a primary and its standby under
// load: there is never a second primary, no answer is a false one, and no lease
// ends. While a primary has not renewed its lease since, it does not act.
func TestFailoverClocks(t *testing.T) {
	s, places, nodes := pair(t)
	a, b := nodes[0], nodes[1]
	const held = 20
	for range held {
		a.enqueue(client.Spec{Queue: "held"})
	}
	var claims client.Claims
	a.post("/v1/claims", client.ClaimRequest{Queues: []string{"held"}, Max: held, LeaseMS: 600_000}, &claims)
	// wantHeld checks that n still has what was claimed, under the leases of then.
	wantHeld := func(n *node, when string) {
		t.Helper()
		for id, job := range n.jobs("held") {
			if job.State != "running" || job.Run != 1 {
				t.Errorf("%s: job %s is %s in run %d", when, id, job.State, job.Run)
			}
		}
	}
	load := newChaosLoad([]string{a.url, b.url}, false)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return load.run(ctx) })

	for _, step := range clockSteps {
		blind := s.Inject(s3server.Fault{Op: s3server.Put, Part: "lock.json", Do: s3server.CutBefore})
		places[0].setClocks(step, 0)
		err := call(http.DefaultClient, http.MethodPost, a.url+"/v1/jobs", client.Spec{Queue: "refused"}, nil)
		blind()
		wantError(t, err, 503, client.CodeNotPrimary)
		eventually(t, 20*time.Second, "the primary again, after its next renewal", a.serves)
		wantHeld(a, fmt.Sprintf("the primary's clock at %s", step))
	}
	for _, step := range clockSteps {
		// The standby looks at the lock a few times, which does not change.
		blind := s.Inject(s3server.Fault{Op: s3server.Put, Part: "lock.json", Do: s3server.CutBefore})
		beat := lockOf(t, s).Beat
		time.Sleep(failoverTTL / 4)
		places[1].setClocks(step, 0)
		time.Sleep(failoverTTL / 4)
		blind()
		// Or the next step would find a lease with little left.
		eventually(t, 20*time.Second, "the primary's next renewal", func() bool { return lockOf(t, s).Beat > beat })
		eventually(t, 20*time.Second, "the primary after it", a.serves)
		if self, ok := b.self(); !ok || self.Role != client.RoleStandby {
			t.Fatalf("the standby's clock at %s: %+v", step, self)
		}
	}
	if lock := lockOf(t, s); lock.Epoch != 1 || lock.Node != "a" {
		t.Fatalf("after the steps: %+v", lock)
	}
	// Nothing that was refused was done.
	wantError(t, call(http.DefaultClient, http.MethodGet, a.url+"/v1/queues/refused", nil, nil), 404, client.CodeNotFound)

	a.kill()
	eventually(t, restoreTime, "the standby as the primary", b.serves) // two years apart
	wantHeld(b, "after the takeover")
	stop()
	<-load.produced
	load.drained.Store(true)
	if err := g.Wait(); err != nil {
		t.Errorf("a request was refused: %v", err)
	}
	if code := b.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	check := load.history.check(chaosJobs(t, b.databasePath()), false)
	check.report(t)
	if check.verdict.Acknowledged == 0 {
		t.Error("nothing was acknowledged")
	}
}

// TestFrozenBeforeTheAnswer stops a primary between an upload and the look at
// lock.json, past a takeover: it says "replicated" of nothing then, not even if
// no clock of its machine shows that time passed.
func TestFrozenBeforeTheAnswer(t *testing.T) {
	for name, clocks := range map[string]time.Duration{"its clocks went on": 0, "its clocks stood still": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			_, places, nodes := pair(t)
			a, b := nodes[0], nodes[1]
			places[0].arm("after-upload", "stop")
			answer := make(chan error, 1)
			var g errgroup.Group
			g.Go(func() error {
				hc := &http.Client{Timeout: 2 * restoreTime}
				answer <- call(hc, http.MethodPost, a.url+"/v1/jobs", client.Spec{Queue: "q", Durability: "replicated"}, nil)
				return nil
			})
			defer g.Wait() //nolint:errcheck // it returns none
			eventually(t, 20*time.Second, "the primary between upload and answer", func() bool { return !places[0].armed("after-upload") })
			eventually(t, restoreTime, "the standby as the primary", b.serves)
			b.enqueue(client.Spec{Queue: "q"})
			if clocks != 0 {
				places[0].setClocks(clocks, clocks)
			}
			if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			err := <-answer
			if err == nil || !strings.Contains(err.Error(), "503") && !client.Temporary(err) {
				t.Errorf("the frozen primary answered: %v, want that the outcome is unknown", err)
			}
			a.waitStandby()
		})
	}
}
