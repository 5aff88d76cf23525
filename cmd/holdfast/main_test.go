package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
)

// shell runs commands against a node.
type shell struct {
	t     *testing.T
	url   string
	stdin string
}

// startNode runs a node on a directory of its own until the test ends.
func startNode(t *testing.T) *shell {
	t.Helper()
	s, _ := startNodeOn(t, t.TempDir(), "127.0.0.1:0")
	return s
}

// startNodeOn runs a node until stop is called or the test ends.
func startNodeOn(t *testing.T, dir, listen string) (s *shell, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan string, 1)
	var g errgroup.Group
	g.Go(func() error {
		defer close(ready)
		return node.Run(ctx, node.Config{Data: dir, Listen: listen, OnReady: func(url string) { ready <- url }})
	})
	stop = func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("node: %v", err)
		}
	}
	t.Cleanup(stop)
	url, ok := <-ready
	if !ok {
		t.Fatal("the node did not start")
	}
	return &shell{t: t, url: url}, stop
}

// run runs a command and returns what a caller of the program sees.
func (s *shell) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	s.t.Setenv("HOLDFAST_URL", s.url)
	var out, errs bytes.Buffer
	code = run(s.t.Context(), args, strings.NewReader(s.stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// ok runs a command that must succeed and returns its output.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	code, stdout, stderr := s.run(args...)
	if code != exitOK {
		s.t.Fatalf("holdfast %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// read runs a command with --json and decodes its output into v.
func (s *shell) read(v any, args ...string) {
	s.t.Helper()
	out := s.ok(append([]string{"--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		s.t.Fatalf("holdfast %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

func (s *shell) enqueue(args ...string) client.Enqueued {
	s.t.Helper()
	var job client.Enqueued
	s.read(&job, append([]string{"enqueue"}, args...)...)
	return job
}

func (s *shell) claim(queue string) client.Claimed {
	s.t.Helper()
	var claims client.Claims
	s.read(&claims, "claim", "--queue", queue, "--wait", "5s")
	if len(claims.Jobs) != 1 {
		s.t.Fatalf("got %d jobs, want 1", len(claims.Jobs))
	}
	return claims.Jobs[0]
}

func (s *shell) job(id string) client.Job {
	s.t.Helper()
	var job client.Job
	s.read(&job, "get", id)
	return job
}

func wantText(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(got) {
			t.Errorf("got\n%s\nwant it to match %q", got, w)
		}
	}
}

func TestEnqueueCarriesEveryFlag(t *testing.T) {
	s := startNode(t)
	id := s.enqueue("mail", `{"to":"<a>"}`, "--type", "welcome", "--priority", "-5", "--delay", "1h", "--max-attempts", "2",
		"--timeout", "30s", "--key", "k", "--tag", "a=1,2", "--tag", "b=", "--expires", "2h").ID
	job := s.job(id)
	if job.Queue != "mail" || job.Type != "welcome" || job.Priority != -5 || job.State != "scheduled" || job.MaxAttempts != 2 ||
		job.TimeoutMS != 30_000 || job.Tags["a"] != "1,2" || string(job.Payload) != `{"to":"<a>"}` || job.ExpiresAtMS == nil {
		t.Errorf("got %+v", job)
	}
	if in := time.Until(time.UnixMilli(job.RunAtMS)); in < 59*time.Minute || in > time.Hour {
		t.Errorf("it runs in %s, want 1h", in)
	}
	if again := s.enqueue("mail", `{"to":"<a>"}`, "--type", "welcome", "--priority", "-5", "--delay", "1h", "--max-attempts", "2",
		"--timeout", "30s", "--key", "other"); again.ID == id {
		t.Error("another key made the same job")
	}
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if got := time.UnixMilli(s.enqueue("mail", "--run-at", at).RunAtMS).UTC().Format(time.RFC3339); got != at {
		t.Errorf("run at: got %s, want %s", got, at)
	}
	s.stdin = " [1,\n2] "
	if got := string(s.job(s.enqueue("mail", "-").ID).Payload); strings.Join(strings.Fields(got), "") != "[1,2]" {
		t.Errorf("payload from stdin: got %s", got)
	}
	wantText(t, s.ok("enqueue", "mail", "--delay", "5m"), `^job \d+ scheduled in mail for .* \(in 5m\)\n$`)
	wantText(t, s.ok("enqueue", "mail"), `^job \d+ queued in mail\n$`)
	s.ok("enqueue", "mail", "1", "--key", "same")
	wantText(t, s.ok("enqueue", "mail", "1", "--key", "same"), "has this key already; it is queued")
}

func TestJobFromClaimToEnd(t *testing.T) {
	s := startNode(t)
	t.Run("an empty claim is no failure", func(t *testing.T) {
		if got, want := s.ok("claim", "--queue", "empty", "--json"), "{\"jobs\":[]}\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		wantText(t, s.ok("claim", "--queue", "empty"), "no job is waiting in empty")
	})
	t.Run("an ack keeps the result", func(t *testing.T) {
		id := s.enqueue("a", "{}").ID
		lease := s.claim("a").Lease
		wantText(t, s.ok("ack", lease, "--result", `{"n":1}`), "job "+id+" is done")
		if got := s.job(id); got.State != "done" || string(got.Result) != `{"n":1}` {
			t.Errorf("got %s with %s, want done with a result", got.State, got.Result)
		}
	})
	t.Run("a failure is kept, a fatal one is the end, a retry a new start", func(t *testing.T) {
		id := s.enqueue("b", "{}").ID
		wantText(t, s.ok("fail", s.claim("b").Lease, "--error", "smtp 451", "--retry-in", "0s"), "job "+id+" is (queued|scheduled)")
		wantText(t, s.ok("fail", s.claim("b").Lease, "--error", "no such user", "--fatal"), "job "+id+" is dead")
		wantText(t, s.ok("dead", "list"), `ID +QUEUE +TYPE`, `TRIES`, id+` +b +default +dead +2/5 +now +no such user`)
		wantText(t, s.ok("get", id), `state +dead`, "smtp 451", "RUN +OUTCOME")
		wantText(t, s.ok("status"), `^http://127\.0\.0\.1:\d+  holdfast .*seq \d+\.\d+`, `QUEUE +QUEUED +SCHEDULED +RUNNING +DONE +DEAD +OLDEST +LAST ERROR`,
			`a +0 +0 +0 +1 +0 +- +-`, `b +0 +0 +0 +0 +1 +- +no such user \(now\)`)
		wantText(t, s.ok("dead", "retry", id, "--payload", `{"to":"b"}`), "job "+id+" in b is queued")
		if got := string(s.claim("b").Payload); got != `{"to":"b"}` {
			t.Errorf("payload: got %s", got)
		}
	})
	t.Run("a release costs no attempt", func(t *testing.T) {
		id := s.enqueue("c", "{}").ID
		wantText(t, s.ok("release", s.claim("c").Lease), "job "+id+" is queued")
		if got := s.claim("c"); got.Attempt != 1 || got.Run != 2 {
			t.Errorf("got attempt %d of run %d, want 1 of 2", got.Attempt, got.Run)
		}
	})
	t.Run("an extend tells of a cancellation", func(t *testing.T) {
		id := s.enqueue("d", "{}").ID
		lease := s.claim("d").Lease
		wantText(t, s.ok("extend", lease, "--lease", "2m", "--progress", "50"), `is yours until .*\(in 2m\)\n`)
		wantText(t, s.ok("cancel", id), `running \(to be cancelled\)`)
		wantText(t, s.ok("extend", lease), "stop working on it")
	})
	t.Run("one lost lease of several fails alone", func(t *testing.T) {
		id := s.enqueue("e", "{}").ID
		lease := s.claim("e").Lease
		code, stdout, stderr := s.run("ack", "1.1.1.x", lease)
		if code != exitConflict {
			t.Errorf("exit code: got %d, want %d", code, exitConflict)
		}
		wantText(t, stdout, "^job "+id+" is done\n$")
		wantText(t, stderr, `^holdfast: 1\.1\.1\.x: .*no lease that a claim here gave.* \(lease_lost\)\n$`)
	})
	wantText(t, s.ok("queues"), `QUEUE +QUEUED +SCHEDULED`, `a +0 +0 +0 +1`)
}

func TestListReadsPages(t *testing.T) {
	pages := []string{
		`{"jobs":[{"id":"5"},{"id":"4"}],"next":"n1"}`, `{"jobs":[],"next":"n2"}`, `{"jobs":[{"id":"3"}],"next":null}`,
	}
	var uris []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uris = append(uris, r.URL.RequestURI())
		_, _ = w.Write([]byte(pages[len(uris)-1]))
	}))
	defer server.Close()
	s := &shell{t: t, url: server.URL}
	t.Run("until the end", func(t *testing.T) {
		var jobs client.Jobs
		s.read(&jobs, "list", "--state", "dead", "--tag", "a=b")
		if len(jobs.Jobs) != 3 || jobs.Next != nil {
			t.Errorf("got %d jobs and next %v, want 3 and none", len(jobs.Jobs), jobs.Next)
		}
		wantText(t, strings.Join(uris, "\n"), `limit=100&state=dead&tag=a%3Ab\n.*after=n1&limit=98.*\n.*after=n2&limit=98`)
	})
	t.Run("until the limit", func(t *testing.T) {
		uris = nil
		code, stdout, stderr := s.run("list", "--limit", "2")
		if code != exitOK || len(uris) != 1 {
			t.Errorf("exit code %d after %d pages, want 0 after 1", code, len(uris))
		}
		wantText(t, stdout, `\n5 `, `\n4 `)
		wantText(t, stderr, "there is more: --after n1")
	})
}

func TestExitCodes(t *testing.T) {
	s := startNode(t)
	s.enqueue("mail", "1", "--key", "k")
	s.enqueue("done", "1")
	lost := s.claim("done").Lease
	s.ok("ack", lost)
	starting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"ready":false,"reasons":["the database is being opened"]}`))
	}))
	defer starting.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	tests := []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"help", []string{"--help"}, exitOK, "^$"},
		{"a command's help", []string{"enqueue", "--help"}, exitOK, "^$"},
		{"an unknown command", []string{"stats"}, exitUsage, "did you mean status"},
		{"an unknown flag", []string{"enqueue", "mail", "--prio", "1"}, exitUsage, "did you mean --priority"},
		{"a missing argument", []string{"enqueue"}, exitUsage, `usage: holdfast enqueue QUEUE \[PAYLOAD\|-\]`},
		{"an argument too many", []string{"dead", "list", "mail", "7"}, exitUsage, `"7" is one argument too many; usage: holdfast dead list`},
		{"an empty argument", []string{"get", ""}, exitUsage, `an argument is empty; usage: holdfast get ID`},
		{"a token that is none", []string{"ack", "foo"}, exitUsage, `ack: "foo" is not a lease token`},
		{"a payload over the limit", []string{"enqueue", "mail", `"` + strings.Repeat("x", 1<<20) + `"`}, exitUsage, `^holdfast: enqueue: PAYLOAD is 1048578 bytes; the limit is 1048576\n$`},
		{"a result over the limit", []string{"ack", "1.1.1.x", "--result", `"` + strings.Repeat("x", 1<<16) + `"`}, exitUsage, `--result is 65538 bytes`},
		{"a time that is over", []string{"enqueue", "mail", "--expires", "2020-01-01"}, exitUsage, `--expires: 2020-01-01 is over`},
		{"a time before now", []string{"enqueue", "mail", "--expires", "-1h"}, exitUsage, `--expires: -1h is over`},
		{"a time that says how to write it", []string{"enqueue", "mail", "--expires", "soon"}, exitUsage, `a date such as \d{4}-\d\d-\d\d, or a duration such as 2h or 3d`},
		{"no attempts", []string{"enqueue", "mail", "--max-attempts", "0"}, exitUsage, `--max-attempts: 0 is not more than 0`},
		{"no jobs", []string{"claim", "mail", "--max", "0"}, exitUsage, `--max: 0 is not more than 0`},
		{"a queue given twice", []string{"status", "mail", "--queue", "mail"}, exitUsage, `given twice`},
		{"an enqueue without a queue", []string{"enqueue", "--type", "t"}, exitUsage, `no queue is given; usage: holdfast enqueue QUEUE`},
		{"an enqueue with a queue too many", []string{"enqueue", "mail", "1", "--queue", "mail"}, exitUsage, `"1" is one argument too many`},
		{"a state that is none", []string{"list", "--state", "gone"}, exitUsage, `--state: "gone" is not a state; use one of`},
		{"a state that is none, of several", []string{"list", "--state", "dead,,done"}, exitUsage, `empty state`},
		{"a state twice", []string{"list", "--state", "dead,Dead"}, exitUsage, `dead is named twice`},
		{"a wait over the limit", []string{"claim", "mail", "--wait", "2m"}, exitUsage, `^holdfast: claim: --wait: must be from 0s to 1m; got 2m\n$`},
		{"a delay over the limit", []string{"enqueue", "mail", "--delay", "4000d"}, exitUsage, `--delay: must be from 0s to 3650d; got 4000d\n`},
		{"a delay and a time", []string{"enqueue", "mail", "--delay", "1s", "--run-at", "2100-01-01T00:00:00Z"}, exitUsage, `--delay: goes not together with --run-at: give one`},
		{"a time too far ahead", []string{"enqueue", "mail", "--run-at", "2100-01-01"}, exitUsage, `--run-at: must be a time, at most ten years ahead`},
		{"a key over the limit", []string{"enqueue", "mail", "--key", strings.Repeat("k", 600)}, exitUsage, `--key: at most 512 bytes`},
		{"a bad queue as an argument", []string{"claim", "a/b"}, exitUsage, `^holdfast: claim: QUEUE: "a/b": use letters`},
		{"a bad queue as a flag", []string{"claim", "--queue", "a/b"}, exitUsage, `^holdfast: claim: --queue: "a/b": use letters`},
		{"a lease over the limit", []string{"extend", "1.1.1.x", "--lease", "2d"}, exitUsage, `--lease: must be from 1s to 1d; got 2d\n`},
		{"work on a bad queue", []string{"work", "a/b", "--", "true"}, exitUsage, `^holdfast: work: queue "a/b": use letters`},
		{"work with no concurrency", []string{"work", "-c", "0", "mail", "--", "true"}, exitUsage, `^holdfast: --concurrency: 0 is not more than 0`},
		{"work with a grace below 0", []string{"work", "--grace", "-1s", "mail", "--", "true"}, exitUsage, `--grace: -1s is less than 0`},
		{"a payload that is no JSON", []string{"enqueue", "mail", "hello"}, exitUsage, `quote it: '"hello"'`},
		{"a duration that is none", []string{"enqueue", "mail", "--delay", "soon"}, exitUsage, "delay"},
		{"a time that is none", []string{"enqueue", "mail", "--run-at", "tomorrow"}, exitUsage, "--run-at"},
		{"a tag that is none", []string{"enqueue", "mail", "--tag", "x"}, exitUsage, "NAME=VALUE"},
		{"a URL that is none", []string{"status", "--url", "localhost"}, exitUsage, "http://127.0.0.1:7780"},
		{"a claim without a queue", []string{"claim"}, exitUsage, "--queue"},
		{"what the node finds wrong", []string{"enqueue", "bad queue"}, exitUsage, "queue"},
		{"no such job", []string{"get", "99"}, exitNotFound, "^holdfast: get: no such job: 99 "},
		{"no such queue", []string{"status", "--queue", "none"}, exitNotFound, `^holdfast: health: no such queue: "none"; did you mean done\? `},
		{"a queue to pause that is not there", []string{"pause", "mial"}, exitNotFound, `no such queue: "mial"; did you mean mail\? `},
		{"a list of a queue that is not there", []string{"list", "mial"}, exitNotFound, `no such queue: "mial"; did you mean mail\? `},
		{"dead jobs of a queue that is not there", []string{"dead", "retry", "--queue", "mial"}, exitNotFound, `no such queue: "mial"; did you mean mail\? `},
		{"some jobs not found", []string{"cancel", "98", "99"}, exitNotFound, "no such job: 98.*\nholdfast: .*no such job: 99"},
		{"a lost lease", []string{"release", lost}, exitConflict, "^holdfast: " + lost + ": the lease is lost: .*; claim the job again\n$"},
		{"a lease of another node", []string{"ack", "1.1.1.x"}, exitConflict, `^holdfast: 1\.1\.1\.x: this is no lease that a claim here gave: send the whole lease, as the claim gave it \(lease_lost\)\n$`},
		{"a key that is taken", []string{"enqueue", "mail", "2", "--key", "k"}, exitConflict, "choose another --key"},
		{"a retry of a job that lives", []string{"dead", "retry", "1"}, exitConflict, "job 1 is queued; only a dead job can be retried"},
		{"nobody listens", []string{"status", "--url", "http://127.0.0.1:1"}, exitUnreachable, "is the node running.*holdfast serve"},
		{"nobody listens at several nodes", []string{"queues", "--url", "http://127.0.0.1:1,http://127.0.0.1:2"}, exitUnreachable, "none of the nodes.*try again"},
		{"a certificate that nobody trusts", []string{"status", "--url", secure.URL}, exitUnreachable, "--tls-ca FILE"},
		{"no TLS where there is some", []string{"status", "--url", strings.Replace(secure.URL, "https:", "http:", 1)}, exitFailed, "HTTPS server; write https:// in --url\n$"},
		{"a port of SQL that is in use", []string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--sql-listen", strings.TrimPrefix(secure.URL, "https://")}, exitFailed, "--sql-listen, HOLDFAST_SQL_LISTEN"},
		{"a node that starts", []string{"status", "--url", starting.URL}, exitUnreachable, "being opened"},
		{"a command to work with that is not there", []string{"work", "--queue", "mail", "--", "./no-such-command"}, exitUsage, "no-such-command.*nothing was claimed"},
		{"work without a command", []string{"work", "--queue", "mail"}, exitUsage, "no command is given"},
		{"work without a queue", []string{"work", "--", "true"}, exitUsage, "no queue is given"},
		{"an address beyond loopback", []string{"serve", "--listen", "0.0.0.0:0", "--data", t.TempDir()}, exitUsage, "loopback"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, stderr := s.run(tt.args...)
			if code != tt.code {
				t.Errorf("exit code: got %d, want %d", code, tt.code)
			}
			wantText(t, stderr, tt.stderr)
			if stderr != "" && !strings.HasPrefix(stderr, "holdfast: ") {
				t.Errorf("got %q, want it to begin with the program's name", stderr)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	s := &shell{t: t}
	wantText(t, s.ok("version"), `^holdfast dev\n`, `go +go1\.`, `sqlite +3\.`)
	var v client.Version
	s.read(&v, "version")
	if v.Version != "dev" || !strings.HasPrefix(v.SQLite, "3.") || v.Schema < 1 {
		t.Errorf("got %+v", v)
	}
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	out, errs := &notingWriter{first: make(chan struct{})}, &notingWriter{first: make(chan struct{})}
	var g errgroup.Group
	code := -1
	g.Go(func() error {
		code = run(ctx, []string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--max-round", "1"}, nil, out, errs)
		return nil
	})
	<-out.first
	wantText(t, out.String(), `serves http://127\.0\.0\.1:\d+\n`, `Dashboard: http://127\.0\.0\.1:\d+/\n`, `Data directory: `+regexp.QuoteMeta(dir), `curl http://.*/v1/jobs -d`, `curl http://.*/v1/claims -d`)
	t.Run("a second node on the directory is a conflict", func(t *testing.T) {
		code, _, stderr := (&shell{t: t}).run("serve", "--data", dir, "--listen", "127.0.0.1:0")
		if code != exitConflict {
			t.Errorf("exit code: got %d, want %d", code, exitConflict)
		}
		wantText(t, stderr, "in use by another process")
	})
	stop()
	if err := g.Wait(); err != nil || code != exitOK {
		t.Errorf("exit code: got %d, want 0: %s", code, errs)
	}
	wantText(t, errs.String(), `"msg":"ready"`)
}

// notingWriter tells when something was first written to it.
type notingWriter struct {
	sharedWriter
	buf   bytes.Buffer
	first chan struct{}
}

func (w *notingWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buf.Len() == 0 {
		defer close(w.first)
	}
	return w.buf.Write(b)
}

func (w *notingWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
