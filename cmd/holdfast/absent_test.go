package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// TestQueueThatIsNotThereYet: a worker may wait for a queue's first job, and a
// person who misspelled the queue is told.
func TestQueueThatIsNotThereYet(t *testing.T) {
	s := startNode(t)
	claim := func(args ...string) (stdout, stderr string) {
		t.Helper()
		code, stdout, stderr := s.run(append([]string{"claim"}, args...)...)
		if code != exitOK {
			t.Errorf("exit code %d", code)
		}
		return stdout, stderr
	}
	t.Run("a node without a queue says so", func(t *testing.T) {
		stdout, stderr := claim("mial")
		wantText(t, stdout, "^no job is waiting in mial\n$")
		wantText(t, stderr, "^there is no queue mial yet; there is none at all\n$")
	})
	s.enqueue("mail", "1", "--delay", "1h")
	for i := range 12 {
		s.enqueue(fmt.Sprintf("q%02d", i), "1", "--delay", "1h")
	}
	const list = "the queues are: mail, q00, q01, q02, q03, q04, q05, q06, q07, q08 and 3 more\n$"
	for _, tt := range []struct{ name, args, stderr string }{
		{"the nearest is told", "mial", `^there is no queue mial yet; did you mean mail\?\n$`},
		{"the queues are listed, up to a bound", "reports", "^there is no queue reports yet; " + list},
		{"several are told at once", "mial mail reports", "^there is no queue mial, reports yet; " + list},
		{"what was asked for too was not meant", "mial mail", "^there is no queue mial yet; " + list},
		{"an empty queue is only empty", "mail", "^$"},
		{"JSON is left alone", "mial --json", "^$"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr := claim(strings.Fields(tt.args)...)
			wantText(t, stderr, tt.stderr)
		})
	}
	t.Run("work says it in its log, and works on it when it is there", func(t *testing.T) {
		said := until(t, "no such queue yet.*\n", "work", "mial", "--url", s.url, "--", "true")
		wantText(t, said, `"level":"WARN","msg":"there is no such queue yet; it comes into being with its first job","queue":"mial","hint":"did you mean mail\?"`)
		stop := s.work("mial", "--", "true")
		s.becomes(s.enqueue("mial", "1").ID, "done")
		stop()
		stop = s.work("mial", "--", "true")
		s.becomes(s.enqueue("mial", "1").ID, "done")
		if _, stderr := stop(); strings.Contains(stderr, "no such queue") {
			t.Errorf("of one that is there: %s", stderr)
		}
	})
	t.Run("a token that may not look gets no hint", func(t *testing.T) {
		blind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/claims" {
				_, _ = w.Write([]byte(`{"jobs":[]}`))
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":{"code":"forbidden","message":"the token lacks the scope view"}}`))
		}))
		defer blind.Close()
		stdout, stderr := claim("mial", "--url", blind.URL)
		wantText(t, stdout, "^no job is waiting in mial\n$")
		wantText(t, stderr, "^$")
	})
	t.Run("events say it before they begin", func(t *testing.T) {
		wantText(t, until(t, "\n", "events", "mali", "--url", s.url), `^there is no queue mali yet; did you mean mail\?\n`)
	})
}

// until runs a command until its standard error matches pattern, and returns that.
func until(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	errs := &notingWriter{first: make(chan struct{})}
	var g errgroup.Group
	g.Go(func() error {
		run(ctx, args, nil, io.Discard, errs)
		return nil
	})
	for range 200 {
		if regexp.MustCompile(pattern).MatchString(errs.String()) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	_ = g.Wait() // of a function that returns none
	return errs.String()
}
