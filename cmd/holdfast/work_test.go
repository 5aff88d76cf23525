//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
)

// script writes a shell script and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "handler")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// work runs holdfast work until stop is called, which returns its exit code
// and what it printed to standard error.
func (s *shell) work(args ...string) (stop func() (code int, stderr string)) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	errs := &notingWriter{first: make(chan struct{})}
	var g errgroup.Group
	code := -1
	args = append([]string{"work", "--url", s.url}, args...)
	g.Go(func() error {
		code = run(ctx, args, nil, &bytes.Buffer{}, errs)
		return nil
	})
	wait := func() (int, string) {
		cancel()
		if err := g.Wait(); err != nil {
			s.t.Error(err)
		}
		return code, errs.String()
	}
	s.t.Cleanup(func() { wait() })
	// The cli package shares its help flag between apps: the next command must
	// not be parsed while this one is.
	<-errs.first
	return wait
}

// becomes waits until a job is in a state, and returns it.
func (s *shell) becomes(id, state string) client.Job {
	s.t.Helper()
	for range 200 {
		if job := s.job(id); job.State == state {
			return job
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("job %s is %s, want %s", id, s.job(id).State, state)
	return client.Job{}
}

func TestWorkRunsACommandForEachJob(t *testing.T) {
	s := startNode(t)
	stop := s.work("--queue", "q", "--concurrency", "2", "--", script(t, `
payload=$(cat)
case $HOLDFAST_TYPE in
env)   echo "{\"id\":\"$HOLDFAST_JOB_ID\",\"queue\":\"$HOLDFAST_QUEUE\",\"attempt\":$HOLDFAST_ATTEMPT,\"run\":$HOLDFAST_RUN,\"arg\":\"$1\",\"payload\":$payload}" ;;
text)  echo "hello world" ;;
quiet) ;;
flood) head -c 200000 /dev/zero | tr '\0' '"' ;;
fatal) echo "this will never do" >&2; exit 65 ;;
later) echo "not now" >&2; exit 75 ;;
fail)  head -c 20000 /dev/zero | tr '\0' x >&2; echo "the end" >&2; exit 3 ;;
kill)  kill -9 $$ ;;
esac
`), "--an-argument")
	tests := []struct {
		name, kind, state string
		result            string // in it
		err               string // in it
	}{
		{"the payload and the job are handed in", "env", "done", `"queue":"q","attempt":1,"run":1,"arg":"--an-argument","payload":{"n":1}}`, ""},
		{"text becomes a string", "text", "done", `"hello world"`, ""},
		{"nothing is no result", "quiet", "done", "", ""},
		{"a flood is cut to what fits", "flood", "done", `"\"\"\"`, ""},
		{"exit 65 is the end", "fatal", "dead", "", "exit status 65: this will never do"},
		{"exit 75 waits for another attempt", "later", "scheduled", "", "exit status 75: not now"},
		{"another exit too, and the end of what it said is kept", "fail", "scheduled", "", "xxxthe end"},
		{"a signal too", "kill", "scheduled", "", "signal: killed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := s.becomes(s.enqueue("q", `{"n":1}`, "--type", tt.kind).ID, tt.state)
			if !strings.Contains(string(job.Result), tt.result) || tt.result == "" && len(job.Result) > 0 {
				t.Errorf("result: got %.300s, want %s in it", job.Result, tt.result)
			}
			got := ""
			if job.LastError != nil {
				got = *job.LastError
			}
			if !strings.Contains(got, tt.err) || tt.err == "" && got != "" {
				t.Errorf("error: got %.300q, want %q in it", got, tt.err)
			}
		})
	}
	code, stderr := stop()
	if code != exitOK {
		t.Errorf("exit code: got %d, want 0", code)
	}
	wantText(t, stderr, "this will never do\n",
		`"msg":"result cut to what a node keeps".*"printed":200000,"limit":65536`,
		`"msg":"job finished",.*"job":"1","queue":"q","type":"env","run":1,"attempt":1,"ms":\d+,"outcome":"done"`,
		`"msg":"job finished",.*"type":"fatal".*"outcome":"failed"`)
	if got := strings.Count(stderr, "result cut"); got != 1 {
		t.Errorf("%d results were said to be cut, want 1", got)
	}
}

func TestWorkTakesQueuesAsArguments(t *testing.T) {
	s := startNode(t)
	s.work("a", "b", "--", "cat")
	for _, queue := range []string{"a", "b"} {
		if job := s.becomes(s.enqueue(queue, `"x"`).ID, "done"); string(job.Result) != `"x"` {
			t.Errorf("got %s", job.Result)
		}
	}
}

func TestWaitText(t *testing.T) {
	for _, tt := range []struct {
		running int64
		grace   time.Duration
		want    string
	}{
		{0, 30 * time.Second, "stopping"},
		{1, 0, "stopping"},
		{1, 30 * time.Second, "waiting up to 30s for 1 job; again to stop now"},
		{12, time.Minute, "waiting up to 1m for 12 jobs; again to stop now"},
	} {
		if got := waitText(tt.running, tt.grace); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestWorkTellsACommandOfItsJob(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := startNode(t)
	t.Setenv("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") // of the worker itself
	s.work("q", "--", script(t, `echo "[\"$HOLDFAST_LEASE\",\"$HOLDFAST_URL\",\"$HOLDFAST_MAX_ATTEMPTS\",\"$TRACEPARENT\"]"`))
	told := func(args ...string) []string {
		t.Helper()
		id := s.enqueue(append([]string{"q"}, args...)...).ID
		var said []string
		if err := json.Unmarshal(s.becomes(id, "done").Result, &said); err != nil || len(said) != 4 {
			t.Fatalf("got %q, %v", said, err)
		}
		if lease := strings.Split(said[0], "."); len(lease) != 4 || lease[1] != id {
			t.Errorf("lease: got %q, want one of job %s", said[0], id)
		}
		if said[1] != s.url {
			t.Errorf("url: got %q, want %q", said[1], s.url)
		}
		return said[2:]
	}
	if got := told("--max-attempts", "7", "--traceparent", trace); got[0] != "7" || got[1] != trace {
		t.Errorf("got %q, want 7 attempts and the job's trace", got)
	}
	if got := told(); !strings.HasPrefix(got[1], "00-4bf92f3577b34da6a3ce929d0e0e4736") {
		t.Errorf("got %q, want the trace in which the job was added", got)
	}
	t.Setenv("TRACEPARENT", "of something else")
	if got := told(); got[1] != "" {
		t.Errorf("got %q, want no trace for a job that has none", got)
	}
}

func TestWorkTimeout(t *testing.T) {
	s := startNode(t)
	s.work("q", "--timeout", "1s", "--", script(t, `exec sleep 60`))
	job := s.becomes(s.enqueue("q").ID, "scheduled")
	wantText(t, *job.LastError, `^the run took longer than --timeout 1s$`)
}

func TestWorkByType(t *testing.T) {
	s := startNode(t)
	s.work("--queue", "q", "--type", "a", "--", "true")
	s.becomes(s.enqueue("q", "--type", "a").ID, "done")
	job := s.becomes(s.enqueue("q", "--type", "b").ID, "scheduled")
	if want := `unknown job type "b"; this worker handles a`; job.LastError == nil || *job.LastError != want {
		t.Errorf("got %v, want %q", job.LastError, want)
	}
}

func TestWorkEndsTheWholeProcessGroup(t *testing.T) {
	// The shell waits for a child of its own that must get the signal too.
	const handler = `trap 'echo told >> "$1"; exit 0' TERM
echo started >> "$1"
sh -c 'trap "echo child told >> \"$1\"; exit 0" TERM; while :; do sleep 0.1; done' sh "$1" &
while :; do sleep 0.1; done
`
	started := func(t *testing.T, log string) {
		t.Helper()
		for range 100 {
			if text, _ := os.ReadFile(log); len(text) > 0 {
				time.Sleep(200 * time.Millisecond) // for the child's trap
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal("the handler did not start")
	}
	told := func(t *testing.T, log string) {
		t.Helper()
		var text []byte
		for range 40 {
			text, _ = os.ReadFile(log)
			if bytes.Contains(text, []byte("\ntold")) && bytes.Contains(text, []byte("child told")) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("got %q, want both processes told", text)
	}
	t.Run("when the job is cancelled", func(t *testing.T) {
		s := startNode(t)
		log := filepath.Join(t.TempDir(), "log")
		s.work("--queue", "q", "--lease", "1s", "--", script(t, handler), log)
		id := s.enqueue("q").ID
		started(t, log)
		s.ok("cancel", id)
		s.becomes(id, "cancelled")
		told(t, log)
	})
	t.Run("when the worker stops and the grace is over", func(t *testing.T) {
		s := startNode(t)
		log := filepath.Join(t.TempDir(), "log")
		stop := s.work("--queue", "q", "--grace", "100ms", "--", script(t, handler), log)
		id := s.enqueue("q").ID
		started(t, log)
		if code, stderr := stop(); code != exitOK {
			t.Errorf("exit code: got %d, want 0: %s", code, stderr)
		}
		told(t, log)
		job := s.becomes(id, "queued")
		if job.Attempt != 1 || job.Interruptions != 1 {
			t.Errorf("got attempt %d with %d interruptions, want 1 with 1", job.Attempt, job.Interruptions)
		}
	})
	t.Run("when the run takes too long", func(t *testing.T) {
		s := startNode(t)
		log := filepath.Join(t.TempDir(), "log")
		s.work("--queue", "q", "--", script(t, handler), log)
		job := s.becomes(s.enqueue("q", "--timeout", "2s").ID, "scheduled")
		told(t, log)
		// Worker and node see it at the same moment, and either may be first.
		wantText(t, *job.LastError, `^(the run took longer than the job's timeout \(2s\)|timeout after 2s)$`)
	})
}

func TestWorkLetsRunsFinish(t *testing.T) {
	s := startNode(t)
	log := filepath.Join(t.TempDir(), "log")
	stop := s.work("--queue", "q", "--", script(t, `echo started > "$1"; sleep 1; echo '"finished"'`), log)
	id := s.enqueue("q").ID
	for range 100 {
		if _, err := os.Stat(log); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if code, _ := stop(); code != exitOK {
		t.Errorf("exit code: got %d, want 0", code)
	}
	if job := s.job(id); job.State != "done" || string(job.Result) != `"finished"` {
		t.Errorf("got %s with %s, want done", job.State, job.Result)
	}
}

func TestWorkSurvivesARestartOfTheNode(t *testing.T) {
	dir := t.TempDir()
	s, stopNode := startNodeOn(t, dir, "127.0.0.1:0")
	s.work("--queue", "q", "--concurrency", "2", "--", script(t, "sleep 1"))
	id := s.enqueue("q").ID
	s.becomes(id, "running")
	stopNode()
	time.Sleep(1200 * time.Millisecond) // the run ends while nobody listens
	s, _ = startNodeOn(t, dir, strings.TrimPrefix(s.url, "http://"))
	if job := s.becomes(id, "done"); job.Run != 1 || job.Attempt != 1 {
		t.Errorf("got run %d and attempt %d, want 1 and 1", job.Run, job.Attempt)
	}
	s.becomes(s.enqueue("q").ID, "done")
}

func TestResultOf(t *testing.T) {
	tests := []struct {
		name, printed string
		cut           bool // more was printed
		want          any  // nil: only its size is checked
	}{
		{"JSON stays", " {\"a\": 1}\n", false, json.RawMessage(`{"a": 1}`)},
		{"text becomes a string", "plain\n", false, "plain"},
		{"bytes that are no text are replaced", "a\xffb", false, "a\uFFFDb"},
		{"JSON that was cut is text", "12", true, "12"},
		{"escapes count", strings.Repeat("\x01", client.MaxResult), true, nil},
		{"quotes count", strings.Repeat(`"`, client.MaxResult), true, nil},
		{"long text fits", strings.Repeat("ä", client.MaxResult/2), true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &head{limit: len(tt.printed)}
			fmt.Fprint(h, tt.printed)
			if tt.cut {
				fmt.Fprint(h, "more")
			}
			got, cut := resultOf(h)
			text, err := json.Marshal(got)
			if err != nil || len(text) > client.MaxResult || tt.want == nil && len(text) < client.MaxResult-16 {
				t.Errorf("got %d bytes, %v, want nearly %d", len(text), err, client.MaxResult)
			}
			if cut != (tt.cut || tt.want == nil) {
				t.Errorf("cut: got %t", cut)
			}
			want, _ := json.Marshal(tt.want)
			if tt.want != nil && string(text) != string(want) {
				t.Errorf("got %s, want %s", text, want)
			}
		})
	}
}
