package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// die makes so many jobs that are dead for a reason, in which %d is their number.
func (s *shell) die(n int, reason string, spec client.Spec) {
	s.t.Helper()
	api, err := client.New(s.url, client.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer api.Close()
	specs := slices.Repeat([]client.Spec{spec}, n)
	if _, err := api.Enqueue(s.t.Context(), specs...); err != nil {
		s.t.Fatal(err)
	}
	claims, err := api.Claim(s.t.Context(), client.ClaimRequest{Queues: []string{spec.Queue}, Max: n})
	if err != nil || len(claims.Jobs) != n {
		s.t.Fatalf("claimed %d, %v", len(claims.Jobs), err)
	}
	fails := make([]client.Fail, n)
	for i, job := range claims.Jobs {
		fails[i] = client.Fail{Lease: job.Lease, Error: strings.ReplaceAll(reason, "%d", strconv.Itoa(i)), Fatal: true}
	}
	if _, err := api.Fail(s.t.Context(), fails...); err != nil {
		s.t.Fatal(err)
	}
}

func TestDeadGroups(t *testing.T) {
	s := startNode(t)
	wantText(t, s.ok("dead", "groups"), "^no dead jobs\n$")
	s.die(3, "smtp 451 for user%d@example.com\tnow", client.Spec{Queue: "mail", Type: "welcome", Tags: map[string]string{"tenant": "a b"}})
	s.die(2, "no such template", client.Spec{Queue: "mail", Type: "digest"})
	s.die(1, "smtp 451 for sms@example.com now", client.Spec{Queue: "sms"})
	var all client.DeadGroups
	s.read(&all, "dead", "groups")
	fp := all.Groups[0].ErrorFP
	t.Run("a table has the largest first", func(t *testing.T) {
		wantText(t, s.ok("dead", "groups"), `^QUEUE +JOBS +ERROR KIND +FOR EXAMPLE +DIED +LAST ERROR\n`+
			`mail +3 +`+fp+` +job 3 +(now|\d+s ago) +smtp 451 for user2@example.com now\n`+
			`mail +2 +[0-9a-f]{16} +job 5 .* no such template\n`+
			`sms +1 +[0-9a-f]{16} +job 6 .* smtp 451 for sms@example.com now\n$`)
	})
	t.Run("what to do next selects what was counted", func(t *testing.T) {
		_, _, hint := s.run("dead", "groups", "mail", "--type", "welcome", "--tag", "tenant=a b", "--since", "2h")
		wantText(t, hint, `3 dead jobs of one kind\n`, `holdfast get 3\n`,
			`holdfast dead retry --queue mail --error `+fp+` --type welcome --tag 'tenant=a b' --since 2h --dry-run\n`, ` --rate 10\n$`)
		wantText(t, s.ok("dead", "retry", "--queue", "mail", "--error", fp, "--type", "welcome", "--tag", "tenant=a b", "--since", "2h", "--dry-run"), `^3 jobs would be`)
	})
	t.Run("filters select", func(t *testing.T) {
		for args, want := range map[string]int64{
			"mail": 5, "-q mail": 5, "--type digest": 2, "--tag tenant": 3, "--tag tenant=a": 0, "--since 1h": 6, "--before 1h": 0, "--limit 1": 6,
			"--error " + fp: 4, "sms --error " + fp: 1,
		} {
			var got client.DeadGroups
			if s.read(&got, append([]string{"dead", "groups"}, strings.Fields(args)...)...); got.Total != want {
				t.Errorf("%s: got %+v, want %d", args, got, want)
			}
		}
		if _, _, stderr := s.run("dead", "groups", "--limit", "1"); !strings.Contains(stderr, "6 dead jobs of 3 kinds; 1 are shown, --limit shows more") {
			t.Errorf("got %s", stderr)
		}
	})
	for args, want := range map[string]string{
		"mail -q mail": "given twice", "--limit 0": "--limit: 0 is not more than 0", "--limit 1001": "--limit: ", "--error oops": "--error: must be an error fingerprint",
		"--since soon": `--since: "soon" is not a time`, "mail sms": "one argument too many",
	} {
		if code, _, stderr := s.run(append([]string{"dead", "groups"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: got %d with %s, want %q", args, code, stderr, want)
		}
	}
	if code, _, stderr := s.run("dead", "groups", "none"); code != exitNotFound {
		t.Errorf("got %d with %s", code, stderr)
	}
}

// steps are the counts of an action in the audit trail, the first first.
func (s *shell) steps(action string) (out []int64) {
	s.t.Helper()
	var trail client.AuditPage
	s.read(&trail, "audit")
	for _, e := range slices.Backward(trail.Entries) {
		if e.Action == action {
			out = append(out, e.Count)
		}
	}
	return out
}

func TestDeadAtARate(t *testing.T) {
	s := startNode(t)
	s.die(50, "oh", client.Spec{Queue: "mail"})
	for args, want := range map[string]string{
		"--all --rate -1": "--rate: -1 is less than 0", "--all --rate fast": `--rate: "fast" is not a number`, "1 --rate 5": "--rate is for jobs that are selected", "--rate 5": "say --all",
	} {
		if code, _, stderr := s.run(append([]string{"dead", "retry"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: got %d with %s", args, code, stderr)
		}
	}
	wantText(t, s.ok("dead", "archive", "--all", "--dry-run", "--rate", "1"), "^50 jobs would be archived\n$")
	t.Run("each second has its step, and each step its entry in the audit trail", func(t *testing.T) {
		began := time.Now()
		wantText(t, s.ok("dead", "retry", "--queue", "mail", "--rate", "20"), "^50 jobs are claimable again\n$")
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("it took %s, want 2 s at least", took)
		}
		if got := s.steps("dead.retry"); !slices.Equal(got, []int64{20, 20, 10}) {
			t.Errorf("the steps have %v", got)
		}
	})
	t.Run("0 is no pace", func(t *testing.T) {
		s.die(40, "oh", client.Spec{Queue: "other"})
		s.ok("dead", "archive", "--queue", "other", "--rate", "0")
		if got := s.steps("dead.archive"); !slices.Equal(got, []int64{40}) {
			t.Errorf("the steps have %v", got)
		}
	})
}

func TestDeadThatIsInterrupted(t *testing.T) {
	s := startNode(t)
	s.die(40, "oh", client.Spec{Queue: "mail"})
	api, err := client.New(s.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	left := func() int {
		got, err := api.DeadGroups(t.Context(), client.DeadRequest{})
		if err != nil {
			t.Error(err)
		}
		return int(got.Total)
	}
	// interrupted runs a command and interrupts it when a step was done.
	interrupted := func(args ...string) (code int, stdout, stderr string) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		before := left()
		over := make(chan struct{})
		go func() {
			defer close(over)
			for ctx.Err() == nil && left() == before {
				time.Sleep(5 * time.Millisecond)
			}
			interrupt()
		}()
		var out, errs bytes.Buffer
		code = run(ctx, append(args, "--url", s.url), nil, &out, &errs)
		interrupt()
		<-over
		return code, out.String(), errs.String()
	}
	t.Run("says what was done and what is left", func(t *testing.T) {
		code, stdout, stderr := interrupted("dead", "retry", "--all", "--rate", "5")
		m := regexp.MustCompile(`^(\d+) jobs are claimable again; (\d+) are left as they were, and the same command goes on with them\nholdfast: interrupted\n$`).FindStringSubmatch(stderr)
		if code != exitInterrupted || stdout != "" || m == nil {
			t.Fatalf("got %d with %q and %q", code, stdout, stderr)
		}
		if want := left(); m[2] != strconv.Itoa(want) || m[1] != strconv.Itoa(40-want) {
			t.Errorf("it says %s and %s, and %d are left", m[1], m[2], want)
		}
	})
	t.Run("in JSON too", func(t *testing.T) {
		before := left()
		code, stdout, stderr := interrupted("dead", "archive", "--all", "--rate", "5", "--json")
		var got swept
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitInterrupted || got.Left == nil || got.Error == nil || got.Error.Code != "interrupted" {
			t.Fatalf("got %d with %s and %s, %v", code, stdout, stderr, err)
		}
		if want := left(); *got.Left != want || got.Count != before-want || stderr != "holdfast: interrupted\n" {
			t.Errorf("got %s and %q, and %d of %d are left", stdout, stderr, want, before)
		}
	})
	t.Run("and the same command goes on", func(t *testing.T) {
		want := fmt.Sprintf("^%d jobs are claimable again\n$", left())
		wantText(t, s.ok("dead", "retry", "--all"), want)
	})
	t.Run("before it began it did nothing", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		var errs bytes.Buffer
		if code := run(ctx, []string{"dead", "retry", "--all", "--url", s.url}, nil, io.Discard, &errs); code != exitInterrupted {
			t.Errorf("got %d with %s", code, &errs)
		}
		wantText(t, errs.String(), "^0 jobs are claimable again; 0 are left")
	})
}

// TestDeadSteps: a node answers as it likes. What was done by a step whose answer
// is under way when something happens is not passed over.
func TestDeadSteps(t *testing.T) {
	answers := make(chan func(http.ResponseWriter))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req client.DeadRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		switch {
		case req.DryRun && req.After == "":
			fmt.Fprint(w, `{"count":40,"next":"1_1"}`)
		case req.DryRun:
			fmt.Fprint(w, `{"count":33,"next":null}`)
		default:
			(<-answers)(w)
		}
	}))
	defer server.Close()
	retry := func(ctx context.Context) (code int, stderr string) {
		var errs bytes.Buffer
		code = run(ctx, []string{"dead", "retry", "--all", "--rate", "7", "--url", server.URL}, nil, io.Discard, &errs)
		return code, errs.String()
	}
	t.Run("a dry run has no pace", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var out, errs bytes.Buffer
		if code := run(ctx, []string{"dead", "retry", "--all", "--rate", "1", "--dry-run", "--url", server.URL}, nil, &out, &errs); code != exitOK || out.String() != "73 jobs would be claimable again\n" {
			t.Errorf("got %d with %s%s", code, &out, &errs)
		}
	})
	t.Run("at an interrupt it is waited for", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		go func() {
			answers <- func(w http.ResponseWriter) {
				interrupt()
				time.Sleep(100 * time.Millisecond) // so that a client that hung up would have
				fmt.Fprint(w, `{"count":7,"next":"1_1"}`)
			}
		}()
		if code, stderr := retry(ctx); code != exitInterrupted || !strings.HasPrefix(stderr, "7 jobs are claimable again; 33 are left") {
			t.Errorf("got %d with %s", code, stderr)
		}
	})
	t.Run("and one without an answer is told", func(t *testing.T) {
		go func() {
			answers <- func(w http.ResponseWriter) { fmt.Fprint(w, `{"count":7,"next":"1_1"}`) }
			answers <- func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
		}()
		if code, stderr := retry(t.Context()); code != exitUnreachable || !strings.HasPrefix(stderr, "7 jobs are claimable again, perhaps up to 7 more; the rest is as it was\n") {
			t.Errorf("got %d with %s", code, stderr)
		}
	})
}

func TestSweepProgress(t *testing.T) {
	var out bytes.Buffer
	t.Run("on a terminal a line is rewritten, not too often", func(t *testing.T) {
		p := &sweepProgress{w: &out, terminal: true, total: 300}
		p.begin()
		p.tell(50, 50)
		p.tell(60, 50)
		p.told = p.told.Add(-rewriteProgress)
		p.tell(310, 50)
		p.end()
		if got, want := out.String(), "\r\x1b[K50 of 300 jobs, 5s left\r\x1b[K310 of 310 jobs\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("elsewhere a line comes now and then", func(t *testing.T) {
		out.Reset()
		p := &sweepProgress{w: &out}
		p.begin()
		p.tell(1, 0)
		p.told = p.told.Add(-logProgress)
		p.tell(500, 0)
		p.tell(1000, 0)
		p.end()
		if got, want := out.String(), "500 jobs so far\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("with --json none does", func(t *testing.T) {
		out.Reset()
		p := &sweepProgress{w: &out, terminal: true, quiet: true}
		p.begin()
		p.tell(1, 1)
		p.end()
		if out.Len() > 0 {
			t.Errorf("got %q", &out)
		}
	})
}
