//go:build unix

package tests_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// handover runs the command against nodes.
func (p *place) handover(urls string) (code int, out client.Handover, stderr string) {
	p.t.Helper()
	code, stdout, stderr := p.cli("handover", "--json", "--url", urls)
	if err := json.Unmarshal([]byte(stdout), &out); err != nil {
		p.t.Fatalf("handover printed %q: %v", stdout, err)
	}
	return code, out, stderr
}

// TestHandover hands over there and back under load: what was acknowledged, by
// local answers too, is there, and no job runs twice in one epoch.
func TestHandover(t *testing.T) {
	_, places, nodes := pair(t)
	load := newChaosLoad([]string{nodes[0].url, nodes[1].url}, false)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return load.run(ctx) })
	both := nodes[0].url + "," + nodes[1].url
	from := 0
	for i := range 4 {
		to := 1 - from
		time.Sleep(time.Second) // under load
		nodes[to].waitStandby()
		code, out, stderr := places[from].handover(both)
		if code != 0 || !out.TakenOver || out.Node != places[to].name || out.URL != nodes[to].url || out.Epoch != int64(i+2) {
			t.Fatalf("handover %d: exit code %d, %+v: %s", i+1, code, out, stderr)
		}
		t.Logf("no primary for %d ms", out.GapMS)
		if limit := failoverTTL + 10*time.Second; out.GapMS <= 0 || out.GapMS > limit.Milliseconds() {
			t.Errorf("no primary for %d ms, want up to %s", out.GapMS, limit)
		}
		eventually(t, 10*time.Second, "the next primary", nodes[to].serves)
		if code, out, stderr := places[from].cli("status", "--url", both); code != 0 || !strings.Contains(out, nodes[to].url) {
			t.Errorf("the status of both: exit code %d: %s%s", code, out, stderr)
		}
		from = to
	}
	stop()
	<-load.produced
	load.drained.Store(true)
	if err := g.Wait(); err != nil {
		t.Errorf("a request was refused: %v", err)
	}
	nodes[from].synced()
	nodes[1-from].kill()
	if code := nodes[from].terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	check := load.history.check(chaosJobs(t, nodes[from].databasePath()), false)
	check.report(t)
	if check.verdict.Acknowledged == 0 || check.beyond > 0 {
		t.Errorf("%+v, and %d local answers were lost: a handover loses none", check.verdict, check.beyond)
	}
}

func TestHandoverThatNobodyTakes(t *testing.T) {
	s := s3server.Start(t)
	p := newAutoPlace(t, "a", s)
	p.ok("init")
	n := p.serve()
	job := n.enqueue(client.Spec{Queue: "q"})
	code, out, stderr := p.handover(n.url)
	if code != 1 || out.TakenOver || out.Node != "a" || out.Epoch != 1 {
		t.Errorf("exit code %d, %+v", code, out)
	}
	wantParts(t, stderr, "nobody took over")
	if least := failoverTTL.Milliseconds(); out.GapMS < least {
		t.Errorf("the root was free for %d ms, want %d at least", out.GapMS, least)
	}
	if got := n.job(job.ID).State; got != "queued" {
		t.Errorf("the job is %s", got)
	}
	if lock := lockOf(t, s); lock.Closed || lock.Epoch != 1 {
		t.Errorf("afterwards: %+v", lock)
	}
	n.enqueue(client.Spec{Queue: "q"})
	n.synced()
	p.verify()
}

func TestHandoverAnswersThoseWhoWait(t *testing.T) {
	s, places, nodes := pair(t)
	claimed, enqueued := make(chan error, 1), make(chan error, 1)
	var g errgroup.Group
	g.Go(func() error {
		var claims client.Claims
		err := call(http.DefaultClient, http.MethodPost, nodes[0].url+"/v1/claims", client.ClaimRequest{Queues: []string{"q"}, WaitMS: 30_000}, &claims)
		if err == nil && len(claims.Jobs) > 0 {
			err = errors.New("a job out of nowhere")
		}
		claimed <- err
		return nil
	})
	defer g.Wait() //nolint:errcheck // it returns none
	defer s.Inject(s3server.Fault{Op: s3server.Put, Part: "/0000/", Do: s3server.Wait, Delay: 700 * time.Millisecond})()
	s.Forget()
	g.Go(func() error {
		enqueued <- call(http.DefaultClient, http.MethodPost, nodes[0].url+"/v1/jobs", client.Spec{Queue: "other", Durability: "replicated"}, nil)
		return nil
	})
	eventually(t, 10*time.Second, "the upload", func() bool { return s.Count(s3server.Put, "root/e00000001/0000/") > 0 })
	code, out, stderr := places[0].handover(nodes[0].url)
	if code != 0 || out.Node != "b" {
		t.Fatalf("exit code %d, %+v: %s", code, out, stderr)
	}
	for what, done := range map[string]chan error{"a claim": claimed, "an enqueue": enqueued} {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s that waited: %v", what, err)
			}
		default:
			t.Errorf("%s still waits", what)
		}
	}
}

func TestHandoverRefused(t *testing.T) {
	t.Run("in manual mode", func(t *testing.T) {
		n := serve(t, t.TempDir())
		code, stdout, stderr := n.cli("handover", "--json", "--url", n.url)
		if code != 4 {
			t.Errorf("exit code %d, want 4: %s", code, stdout)
		}
		wantParts(t, stderr, "failover is manual", "failover: auto")
		n.enqueue(client.Spec{Queue: "q"})
	})
	t.Run("by a standby, which sends to nobody", func(t *testing.T) {
		s, places, nodes := pair(t)
		code, _, stderr := places[1].cli("handover", "--url", nodes[1].url)
		if code != 5 {
			t.Errorf("exit code %d, want 5", code)
		}
		wantParts(t, stderr, "standby")
		if lock := lockOf(t, s); lock.Epoch != 1 || lock.Node != "a" || lock.Closed {
			t.Errorf("afterwards: %+v", lock)
		}
		nodes[0].enqueue(client.Spec{Queue: "q"})
	})
}
