package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"holdfast/node/client"
)

func TestWorkerLogsALineForEachRun(t *testing.T) {
	tests := []struct {
		name    string
		handler client.Handler
		want    string
	}{
		{"done", returns(nil, nil), `level=INFO msg="job finished" worker=w job=1 queue=mail type=a run=1 attempt=1 ms=0 outcome=done`},
		{"failed", returns(nil, errors.New("oh")), `level=WARN msg="job finished" worker=w job=1 queue=mail type=a run=1 attempt=1 ms=0 outcome=failed err=oh`},
		{"given back", sleeper(time.Hour, nil), `level=INFO msg="job finished" worker=w job=1 queue=mail type=a run=1 attempt=1 ms=1000 outcome="given back"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWorker(t, newSource(job("1", "a")), client.WorkerOptions{Default: tt.handler, Name: "w", Grace: -1})
				time.Sleep(time.Second)
				w.end()
				if !strings.Contains(w.logs.String(), tt.want) {
					t.Errorf("got %s, want a line with %s", w.logs, tt.want)
				}
			})
		})
	}
}

func TestWorkerSaysOnceThatARunTookTooLong(t *testing.T) {
	const said = "the run took longer than the job's timeout (5s)"
	tests := []struct {
		name string
		err  func(ctx context.Context) error
		want string
	}{
		{"for the error of the context", func(ctx context.Context) error { return ctx.Err() }, said},
		{"for its cause", context.Cause, said},
		{"for a cause that is wrapped", func(ctx context.Context) error { return fmt.Errorf("page 3: %w", context.Cause(ctx)) }, "page 3: " + said},
		{"before an error of the handler", func(context.Context) error { return errors.New("half a file") }, said + ": half a file"},
		{"before an error that wraps the context's", func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) }, said + ": query: context deadline exceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := job("1", "")
				j.TimeoutMS = 5000
				s := newSource(j)
				w := startWorker(t, s, client.WorkerOptions{Default: func(ctx context.Context, _ client.Claimed) (any, error) {
					<-ctx.Done()
					return nil, tt.err(ctx)
				}})
				time.Sleep(6 * time.Second)
				equal(t, "fails", texts(s.said("fail")), []string{"fail L1 by back-off: " + tt.want})
				w.end()
			})
		})
	}
}

// A batch that is refused as a whole must not take the outcomes of others with
// it.
func TestWorkerSendsOneByOneWhatWasRefusedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs []client.Claimed
		for _, id := range []string{"1", "2", "3", "4"} {
			jobs = append(jobs, job(id, id))
		}
		s := newSource(jobs...)
		s.refuse = func(leases []string) error {
			if slices.Contains(leases, "L2") || slices.Contains(leases, "L3") {
				return &client.Error{Status: 413, Code: client.CodeTooLarge, Message: "the body is over the limit"}
			}
			return nil
		}
		fails := func(context.Context, client.Claimed) (any, error) {
			time.Sleep(time.Second)
			return nil, errors.New("oh")
		}
		w := startWorker(t, s, client.WorkerOptions{Concurrency: 4, Default: sleeper(time.Second, nil), Handlers: map[string]client.Handler{"3": fails, "4": fails}})
		time.Sleep(10 * time.Second)
		equal(t, "acks", texts(s.said("ack L")), []string{`ack L1 "slept"`})
		equal(t, "fails", texts(s.said("fail L")), []string{"fail L4 by back-off: oh"})
		if got := strings.Count(w.logs.String(), "the outcome of the run was refused"); got != 2 {
			t.Errorf("%d refusals were logged, want 2: %s", got, w.logs)
		}
		w.end()
	})
}

func TestWorkerCutsErrorsToWhatANodeKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(job("1", ""))
		w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, errors.New("ä"+strings.Repeat("\x01ä\xff", client.MaxError)))})
		time.Sleep(time.Second)
		fails := s.said("fail L1 by back-off: ")
		if len(fails) != 1 {
			t.Fatalf("got %q, want one fail", texts(fails))
		}
		text := strings.TrimPrefix(fails[0].what, "fail L1 by back-off: ")
		if len(text) > client.MaxError || len(text) < client.MaxError-4 || !utf8.ValidString(text) {
			t.Errorf("got %d bytes, want about %d of UTF-8", len(text), client.MaxError)
		}
		w.end()
	})
}

func TestWorkerKeepsABatchOfErrorsWithinItsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jobs []client.Claimed
		for i := range 400 {
			jobs = append(jobs, job(strconv.Itoa(i), ""))
		}
		s := newSource(jobs...)
		most := 0
		s.refuse = func(leases []string) error { most = max(most, len(leases)); return nil }
		w := startWorker(t, s, client.WorkerOptions{Concurrency: 400, Default: func(context.Context, client.Claimed) (any, error) {
			time.Sleep(time.Second)
			return nil, errors.New(strings.Repeat("\x01", client.MaxError)) // six bytes each in JSON
		}})
		time.Sleep(time.Minute)
		if got := len(s.said("fail L")); got != 400 {
			t.Errorf("got %d fails, want 400", got)
		}
		if most > 8<<20/(6*client.MaxError) {
			t.Errorf("got %d fails in a request, more than 8 MiB", most)
		}
		w.end()
	})
}
