package tests_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// costAnswer is what holdfast cost --json prints.
type costAnswer struct {
	PricesOf string `json:"prices_of"`
	Lines    []struct {
		What     string             `json:"what"`
		Requests client.Requests    `json:"requests"`
		USD      map[string]float64 `json:"usd"`
	} `json:"lines"`
}

const monthSeconds = 30 * 24 * 3600

// TestCostIsWhatIsCounted loads a node whose settings make everything that
// costs happen within seconds, and compares what it counted with the estimate
// for the same rate.
func TestCostIsWhatIsCounted(t *testing.T) {
	p := newPlace(t, "n", bucket(s3server.Start(t), "root"))
	appendTo(t, p.config, "sync-interval: 200ms\nlevels: [{interval: 1s}, {interval: 3s}]\nl0-retention: 1s\n")
	p.ok("init")
	n := p.serve()
	counted := func() client.ReplicationStatus {
		t.Helper()
		_, body := n.fetch("/v1/replication")
		var st client.ReplicationStatus
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	before, began := counted(), time.Now()
	api, err := client.New(n.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for time.Since(began) < 15*time.Second {
		if _, err := api.Enqueue(t.Context(), client.Spec{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // the rate, not a wait
	}
	after, seconds := counted(), time.Since(began).Seconds()
	rate := float64(after.Seq-before.Seq) / seconds

	var got costAnswer
	p.read(&got, "cost", "--rate", fmt.Sprint(rate), "--url", n.url)
	if len(got.Lines) < 2 || got.Lines[0].What != "idle" {
		t.Fatalf("got %+v", got)
	}
	if idle := got.Lines[0].Requests; idle != (client.Requests{}) {
		t.Errorf("idle in manual mode: %+v", idle)
	}
	estimate := got.Lines[1].Requests
	for _, tt := range []struct {
		what          string
		counted, said int64
	}{
		{"PUT", after.Requests.Put - before.Requests.Put, estimate.Put},
		{"GET", after.Requests.Get - before.Requests.Get, estimate.Get},
		{"LIST", after.Requests.List - before.Requests.List, estimate.List},
	} {
		// A machine that is busy uploads more seldom than it may.
		want, is := float64(tt.said)/monthSeconds*seconds, float64(tt.counted)
		t.Logf("%s: counted %.0f, estimated %.0f", tt.what, is, want)
		if is > 2*want+5 || is < want/3-5 {
			t.Errorf("%s: counted %.0f, estimated %.0f", tt.what, is, want)
		}
	}
	if usd := got.Lines[1].USD["AWS S3 Standard (us-east-1)"]; usd < 5 {
		t.Errorf("five uploads a second cost %.2f at S3", usd)
	}
}

func TestCost(t *testing.T) {
	usd := func(t *testing.T, settings string, args ...string) costAnswer {
		t.Helper()
		p := newPlace(t, "n", "type: s3\nbucket: b\npath: p\nregion: us-east-1")
		appendTo(t, p.config, settings)
		var got costAnswer
		p.read(&got, append([]string{"cost", "--url", "http://" + freeAddr(t)}, args...)...)
		return got
	}
	const s3 = "AWS S3 Standard (us-east-1)"
	t.Run("an upload a second costs what a month of them costs", func(t *testing.T) {
		// 2.6 million at $5 a million, and a little for what is done with them.
		if got := usd(t, "").Lines[1].USD[s3]; got < 13 || got > 18 {
			t.Errorf("got %.2f", got)
		}
	})
	t.Run("ten times as seldom, a tenth", func(t *testing.T) {
		if got := usd(t, "sync-interval: 10s\n").Lines[1].USD[s3]; got < 1.3 || got > 4 {
			t.Errorf("got %.2f", got)
		}
	})
	t.Run("a lease costs while idle", func(t *testing.T) {
		// Four renewals in ten seconds: a million a month.
		if got := usd(t, "holdfast:\n  failover: auto\n").Lines[0].USD[s3]; got < 5 || got > 7 {
			t.Errorf("got %.2f", got)
		}
	})
	t.Run("a rate that is none is a wrong use", func(t *testing.T) {
		cmd := exec.Command(binary(t), "cost", "--rate", "-1")
		cmd.Env = cleanEnv()
		if code, _, stderr := run(t, cmd); code != 2 || !strings.Contains(stderr, "--rate") {
			t.Errorf("got %d, %s", code, stderr)
		}
	})
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(before, text...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDoctorTriesTheBucket(t *testing.T) {
	type check struct {
		Name, Found, Fix string
		OK               bool
	}
	examine := func(t *testing.T, s *s3server.Server, settings string) map[string]check {
		t.Helper()
		p := newPlace(t, "n", bucket(s, "root"))
		appendTo(t, p.config, settings)
		p.ok("init")
		_, out, stderr := p.cli("doctor", "--json")
		var got struct{ Checks []check }
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: %s%s", err, out, stderr)
		}
		byName := map[string]check{}
		for _, c := range got.Checks {
			byName[c.Name] = c
		}
		return byName
	}
	t.Run("a good one has all", func(t *testing.T) {
		s := s3server.Start(t)
		got := examine(t, s, "")
		for _, name := range []string{"replica", "bucket rights", "conditional writes", "clock"} {
			if !got[name].OK {
				t.Errorf("%s: %+v", name, got[name])
			}
		}
		if left, _ := filepath.Glob(filepath.Join(s.Dir, "root", ".*")); len(left) > 0 || s.Count(s3server.Put, "root/.probe") != 1 {
			t.Errorf("scratch objects are left: %v", left)
		}
	})
	t.Run("a key that may not delete is told", func(t *testing.T) {
		s := s3server.Start(t)
		s.Inject(s3server.Fault{Op: s3server.Delete, Do: s3server.Answer, Status: 403, Code: "AccessDenied"})
		if got := examine(t, s, "")["bucket rights"]; got.OK || !strings.Contains(got.Fix, "delete") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("one without conditional writes is told, and what follows from it", func(t *testing.T) {
		for settings, ok := range map[string]bool{"": true, "holdfast:\n  failover: auto\n": false} {
			s := s3server.Start(t)
			s.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional})
			if got := examine(t, s, settings)["conditional writes"]; got.OK != ok || !strings.Contains(got.Found, "no working conditional writes") {
				t.Errorf("%q: got %+v", settings, got)
			}
		}
	})
}
