package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/client"
)

// shift is a worker that runs in a test.
type shift struct {
	t      *testing.T
	stop   context.CancelFunc
	done   chan error
	logs   *logBuffer
	worker *client.Worker
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startWorker runs a worker of concurrency 1 and a lease of 30 s, unless opts
// say otherwise.
func startWorker(t *testing.T, s client.Source, opts client.WorkerOptions) *shift {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &shift{t: t, stop: stop, done: make(chan error, 1), logs: &logBuffer{}}
	opts.Queues = []string{"mail"}
	opts.Logger = slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	worker, err := client.NewWorker(s, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.worker = worker
	go func() { w.done <- worker.Run(ctx) }() // owned: end waits for it
	return w
}

// end stops the worker and returns how long that took.
func (w *shift) end() time.Duration {
	w.t.Helper()
	start := time.Now()
	w.stop()
	if err := <-w.done; err != nil {
		w.t.Errorf("Run: got %v, want nil", err)
	}
	return time.Since(start)
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func returns(result any, err error) client.Handler {
	return func(context.Context, client.Claimed) (any, error) { return result, err }
}

// sleeper works for d unless its context ends first; it sends the cause then.
func sleeper(d time.Duration, causes chan<- error) client.Handler {
	return func(ctx context.Context, _ client.Claimed) (any, error) {
		select {
		case <-time.After(d):
			return "slept", nil
		case <-ctx.Done():
			if causes != nil {
				causes <- context.Cause(ctx)
			}
			return nil, ctx.Err()
		}
	}
}

func TestWorkerReportsHowARunEnded(t *testing.T) {
	tests := []struct {
		name    string
		handler client.Handler
		want    string // how the report begins
	}{
		{"a result is kept as JSON", returns(map[string]int{"n": 1}, nil), `ack L1 {"n":1}`},
		{"no result is none", returns(nil, nil), `ack L1 `},
		{"an error is tried again by the back-off", returns(nil, errors.New("smtp 451")), "fail L1 by back-off: smtp 451"},
		{"a fatal error is not", returns(nil, client.Fatal(errors.New("no such user"))), "fail L1 never: no such user"},
		{"an error may say when", returns(nil, client.Later(time.Minute, errors.New("busy"))), "fail L1 in 60000ms: busy"},
		{"a snooze is neither", returns(nil, client.Snooze(time.Minute)), "snooze L1 60000"},
		{"a wrapped snooze too", returns(nil, fmt.Errorf("not open yet: %w", client.Snooze(time.Hour))), "snooze L1 3600000"},
		{"a snooze back in time is one of no time", returns(nil, client.Snooze(-time.Hour)), "snooze L1 0"},
		{"a panic is a failure", func(context.Context, client.Claimed) (any, error) { panic("oh") }, "fail L1 by back-off: panic: oh"},
		{"a result that is no JSON is a failure", returns(make(chan int), nil), "fail L1 by back-off: result: json"},
		{"a result over the limit is a failure", returns(strings.Repeat("x", 1<<17), nil), "fail L1 by back-off: the result is 131074 bytes"},
		{"a refused ack is a failure", returns("refuse", nil), `ack L1 "refuse"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource(job("1", "a"))
				w := startWorker(t, s, client.WorkerOptions{Default: tt.handler})
				synctest.Wait()
				got := slices.Concat(s.said("ack"), s.said("fail"), s.said("snooze"))
				if len(got) == 0 || !strings.HasPrefix(got[0].what, tt.want) {
					t.Errorf("got %q, want it to begin with %q", texts(got), tt.want)
				}
				w.end()
			})
		})
	}
	t.Run("a refused ack becomes a failure with the reason", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", "a"))
			w := startWorker(t, s, client.WorkerOptions{Default: returns("refuse", nil)})
			time.Sleep(time.Second)
			equal(t, "fails", texts(s.said("fail")), []string{"fail L1 by back-off: the ack was refused: too large (too_large)"})
			w.end()
		})
	})
}

func TestWorkerChoosesTheHandlerByType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(job("1", "a"), job("2", "b"), job("3", "c"))
		w := startWorker(t, s, client.WorkerOptions{Handlers: map[string]client.Handler{"a": returns("of a", nil), "b": returns("of b", nil)}})
		synctest.Wait()
		equal(t, "acks", texts(s.said("ack")), []string{`ack L1 "of a"`, `ack L2 "of b"`})
		equal(t, "fails", texts(s.said("fail")), []string{`fail L3 by back-off: unknown job type "c"; this worker handles a, b`})
		w.end()
	})
}

func TestWorkerClaims(t *testing.T) {
	t.Run("no more than the free slots", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""), job("2", ""), job("3", ""))
			var mu sync.Mutex
			var now, most int
			h := func(context.Context, client.Claimed) (any, error) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return nil, nil
			}
			w := startWorker(t, s, client.WorkerOptions{Default: h, Concurrency: 2})
			time.Sleep(5 * time.Second)
			w.end()
			if most != 2 {
				t.Errorf("got %d handlers at a time, want 2", most)
			}
			if got := len(s.said("ack")); got != 3 {
				t.Errorf("got %d acks, want 3", got)
			}
		})
	})
	t.Run("with the ack of the last job while there is more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""), job("2", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			synctest.Wait()
			equal(t, "claims", texts(s.said("claim")), []string{
				"claim max 1 wait 20000 acks 0 fails 0", // job 1
				"claim max 1 wait 0 acks 1 fails 0",     // job 2
				"claim max 1 wait 0 acks 1 fails 0",     // nothing more,
				"claim max 1 wait 20000 acks 0 fails 0", // so it waits
			})
			w.end()
		})
	})
	t.Run("an ack does not wait for the claim that waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Second, nil), Concurrency: 2})
			time.Sleep(2 * time.Second)
			acks := s.said("ack")
			if len(acks) != 1 || acks[0].at != time.Second {
				t.Errorf("got acks %v, want one after 1s", acks)
			}
			w.end()
		})
	})
	t.Run("again and again while nothing comes, without a storm", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			time.Sleep(time.Minute - time.Second)
			if got := len(s.said("claim")); got != 3 {
				t.Errorf("got %d claims in a minute, want 3", got)
			}
			w.end()
		})
	})
	t.Run("not in a tight loop when the source does not wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			s.hasty = true
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			time.Sleep(10*time.Second - time.Millisecond)
			if got := len(s.said("claim")); got != 20 {
				t.Errorf("got %d claims in 10 s, want 20", got)
			}
			w.end()
		})
	})
	t.Run("a refusal ends Run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			s.down = &client.Error{Status: 400, Code: client.CodeInvalid, Message: "queues[0]: bad"}
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			if err := <-w.done; !errors.Is(err, s.down) {
				t.Errorf("Run: got %v, want %v", err, s.down)
			}
			w.stop()
		})
	})
}

func TestWorkerSurvivesASourceThatIsDown(t *testing.T) {
	t.Run("claims are tried again, at most 5 s apart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			s.down = errDown
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			time.Sleep(2 * time.Minute)
			claims := s.said("claim")
			if len(claims) < 24 || len(claims) > 60 {
				t.Errorf("got %d claims in two minutes, want 24 to 60", len(claims))
			}
			s.set(func(s *source) { s.down = nil })
			s.add(job("1", ""))
			time.Sleep(6 * time.Second)
			equal(t, "acks", texts(s.said("ack")), []string{"ack L1 "})
			if got := strings.Count(w.logs.String(), "the node does not answer"); got != 1 {
				t.Errorf("the outage was logged %d times, want once", got)
			}
			w.end()
		})
	})
	t.Run("an ack is sent again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Second, nil)})
			time.Sleep(time.Second / 2)
			s.set(func(s *source) { s.down = errDown })
			time.Sleep(20 * time.Second)
			s.set(func(s *source) { s.down = nil })
			time.Sleep(6 * time.Second)
			equal(t, "acks that were taken", texts(s.said("ack L")), []string{`ack L1 "slept"`})
			w.end()
		})
	})
	t.Run("an ack is given up when the lease is long over, and that is logged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Second, nil)})
			time.Sleep(time.Second / 2)
			s.set(func(s *source) { s.down = errDown })
			time.Sleep(90 * time.Second)
			s.set(func(s *source) { s.down = nil })
			time.Sleep(6 * time.Second)
			equal(t, "acks that were taken", texts(s.said("ack L")), []string{})
			if !strings.Contains(w.logs.String(), "could not be reported") {
				t.Errorf("nothing was logged: %s", w.logs)
			}
			w.end()
		})
	})
}
