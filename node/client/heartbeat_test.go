package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/client"
)

func times(calls []callOf) []time.Duration {
	var out []time.Duration
	for _, c := range calls {
		out = append(out, c.at)
	}
	return out
}

func TestWorkerHeartbeats(t *testing.T) {
	t.Run("a lease is extended at each third of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(35*time.Second, nil)})
			time.Sleep(time.Minute)
			got := times(s.said("extend L1 30000"))
			if want := []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}; !slices.Equal(got, want) {
				t.Errorf("got heartbeats at %v, want %v", got, want)
			}
			equal(t, "acks", texts(s.said("ack")), []string{`ack L1 "slept"`})
			w.end()
		})
	})
	t.Run("one request serves all runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""), job("2", ""), job("3", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(15*time.Second, nil), Concurrency: 3})
			time.Sleep(11 * time.Second)
			got := times(s.said("extend"))
			if want := []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second}; !slices.Equal(got, want) {
				t.Errorf("got heartbeats at %v, want %v", got, want)
			}
			w.end()
		})
	})
	t.Run("a failed one is repeated soon", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			causes := make(chan error, 1)
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(40*time.Second, causes)})
			time.Sleep(5 * time.Second)
			s.set(func(s *source) { s.down = errDown })
			time.Sleep(20 * time.Second)
			s.set(func(s *source) { s.down = nil })
			time.Sleep(30 * time.Second)
			if len(causes) > 0 {
				t.Errorf("the handler was cancelled: %v", <-causes)
			}
			equal(t, "acks", texts(s.said("ack")), []string{`ack L1 "slept"`})
			w.end()
		})
	})
	t.Run("one that hangs does not stop the next", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			s.hang = true
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(25*time.Second, nil)})
			time.Sleep(22 * time.Second)
			if got := len(s.said("extend hangs")); got != 2 {
				t.Errorf("got %d heartbeats in 22 s, want 2", got)
			}
			w.end()
		})
	})
}

func TestWorkerEndsARun(t *testing.T) {
	tests := []struct {
		name    string
		break_  func(*source)
		timeout int64 // ms
		cause   error
		after   time.Duration
		report  string // how it begins; empty: none
		log     string
	}{
		{
			name: "that lost its lease, and reports nothing", break_: func(s *source) { s.lost["L1"] = true },
			cause: client.ErrLeaseLost, after: 10 * time.Second, log: "lease lost; the handler is cancelled",
		},
		{
			name: "that was cancelled, and gives the job back", break_: func(s *source) { s.cancel["L1"] = true },
			cause: client.ErrCancelled, after: 10 * time.Second, report: "release L1",
		},
		{
			name: "whose lease may be over, and gives the job back", break_: func(s *source) { s.hang = true },
			cause: client.ErrLeaseLost, after: 30 * time.Second, report: "release L1",
		},
		{
			name: "that takes too long, just before the node says so", timeout: 5000,
			cause: client.ErrTimeout, after: 4750 * time.Millisecond,
			report: "fail L1 by back-off: the run took longer than the job's timeout (5s)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := job("1", "")
				if tt.timeout > 0 {
					j.TimeoutMS = tt.timeout
				}
				s := newSource(j)
				if tt.break_ != nil {
					tt.break_(s)
				}
				causes := make(chan error, 1)
				w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Hour, causes)})
				start := time.Now()
				if got := <-causes; !errors.Is(got, tt.cause) {
					t.Errorf("got cause %v, want %v", got, tt.cause)
				}
				// A heartbeat that hangs is noticed with some delay.
				if got := time.Since(start); got < tt.after || got > tt.after+11*time.Second {
					t.Errorf("the run ended after %s, want %s", got, tt.after)
				}
				time.Sleep(time.Second)
				reports := texts(slices.Concat(s.said("ack"), s.said("fail"), s.said("release")))
				if tt.report == "" && len(reports) > 0 || tt.report != "" && (len(reports) != 1 || !strings.HasPrefix(reports[0], tt.report)) {
					t.Errorf("got reports %q, want %q", reports, tt.report)
				}
				if !strings.Contains(w.logs.String(), tt.log) {
					t.Errorf("the log has no %q: %s", tt.log, w.logs)
				}
				w.end()
			})
		})
	}
	t.Run("work that was finished all the same is acked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			s.cancel["L1"] = true
			h := func(ctx context.Context, _ client.Claimed) (any, error) { <-ctx.Done(); return "done", nil }
			w := startWorker(t, s, client.WorkerOptions{Default: h})
			time.Sleep(11 * time.Second)
			equal(t, "acks", texts(s.said("ack")), []string{`ack L1 "done"`})
			w.end()
		})
	})
	t.Run("a lost lease that the ack finds out is logged", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			s.lost["L1"] = true
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			synctest.Wait()
			if !strings.Contains(w.logs.String(), "lease lost") {
				t.Errorf("nothing was logged: %s", w.logs)
			}
			w.end()
		})
	})
}

func TestWorkerStops(t *testing.T) {
	t.Run("at once when nothing runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := startWorker(t, newSource(), client.WorkerOptions{Default: returns(nil, nil)})
			time.Sleep(time.Second)
			if took := w.end(); took > 0 {
				t.Errorf("took %s, want no time", took)
			}
		})
	})
	t.Run("after the runs have finished", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(20*time.Second, nil)})
			time.Sleep(time.Second)
			s.add(job("2", ""))
			if took := w.end(); took != 19*time.Second {
				t.Errorf("took %s, want 19s", took)
			}
			equal(t, "acks", texts(s.said("ack")), []string{`ack L1 "slept"`})
			if len(s.said("extend")) == 0 {
				t.Error("the lease was not extended during the grace")
			}
			if got := len(s.waiting); got != 1 {
				t.Errorf("%d jobs are left, want 1: a worker that stops claims nothing", got)
			}
		})
	})
	t.Run("cancelling and giving back what outlives the grace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			causes := make(chan error, 1)
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Hour, causes), Grace: 10 * time.Second})
			time.Sleep(time.Second)
			if took := w.end(); took != 10*time.Second {
				t.Errorf("took %s, want 10s", took)
			}
			if got := <-causes; !errors.Is(got, client.ErrStopped) {
				t.Errorf("got cause %v, want ErrStopped", got)
			}
			equal(t, "releases", texts(s.said("release")), []string{"release L1"})
		})
	})
	t.Run("giving back at once what a claim brings after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			s.stubborn = true
			w := startWorker(t, s, client.WorkerOptions{Default: returns(nil, nil)})
			time.Sleep(time.Second)
			w.stop()
			synctest.Wait()
			s.add(job("1", ""))
			w.end()
			equal(t, "releases", texts(s.said("release")), []string{"release L1"})
			equal(t, "acks", texts(s.said("ack")), []string{})
		})
	})
	t.Run("at once when it is told to a second time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			causes := make(chan error, 1)
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Hour, causes)})
			time.Sleep(time.Second)
			w.stop()
			time.Sleep(time.Second)
			w.worker.StopNow()
			w.worker.StopNow()
			if took := w.end(); took > 0 {
				t.Errorf("took %s, want no time", took)
			}
			if got := <-causes; !errors.Is(got, client.ErrStopped) {
				t.Errorf("got cause %v, want ErrStopped", got)
			}
			equal(t, "releases", texts(s.said("release")), []string{"release L1"})
		})
	})
	t.Run("at once when it is told to hurry at first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Hour, nil)})
			time.Sleep(time.Second)
			w.worker.StopNow()
			if err := <-w.done; err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
			w.stop()
			equal(t, "releases", texts(s.said("release")), []string{"release L1"})
		})
	})
	t.Run("giving back the job of a handler that is slow to heed it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			slow := func(ctx context.Context, _ client.Claimed) (any, error) {
				<-ctx.Done()
				time.Sleep(8 * time.Second)
				return nil, ctx.Err()
			}
			w := startWorker(t, s, client.WorkerOptions{Default: slow, Grace: time.Second})
			time.Sleep(time.Second)
			if took := w.end(); took != 9*time.Second {
				t.Errorf("took %s, want 9s", took)
			}
			equal(t, "releases", texts(s.said("release")), []string{"release L1"})
		})
	})
	t.Run("in bounded time when the source is down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(job("1", ""))
			w := startWorker(t, s, client.WorkerOptions{Default: sleeper(time.Hour, nil), Grace: 10 * time.Second})
			time.Sleep(time.Second)
			s.set(func(s *source) { s.down = errDown })
			if took := w.end(); took < 10*time.Second || took > 21*time.Second {
				t.Errorf("took %s, want 10s to 21s", took)
			}
			if !strings.Contains(w.logs.String(), "could not be reported") {
				t.Errorf("nothing was logged: %s", w.logs)
			}
		})
	})
}

func TestNewWorkerReportsEveryProblem(t *testing.T) {
	tests := []struct {
		opts client.WorkerOptions
		want []string
	}{
		{client.WorkerOptions{Concurrency: -1, Lease: time.Millisecond}, []string{"no queue", "no handler", "concurrency -1", "lease of 1ms"}},
		{client.WorkerOptions{Concurrency: 1001, Lease: 48 * time.Hour}, []string{"concurrency 1001", "lease of 48h"}},
		{client.WorkerOptions{Queues: []string{"a", "b/c", "", "-x", "a", strings.Repeat("x", 129)}}, []string{
			`queue "b/c": use letters`, `queue "": use`, `queue "-x": use`, `queue "a" is named twice`, "at most 128 bytes",
		}},
		{client.WorkerOptions{Queues: make([]string, 101)}, []string{"101 queues"}},
		{client.WorkerOptions{Queues: []string{"a"}, Handlers: map[string]client.Handler{"b c": returns(nil, nil), "d": nil}}, []string{`type "b c"`, `type "d" is nil`}},
	}
	for _, tt := range tests {
		_, err := client.NewWorker(newSource(), tt.opts)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want it to name %q", err, want)
			}
		}
	}
}
