package node_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

// TestWorkerInProcess runs the worker of the HTTP API on a queue in the same
// process.
func TestWorkerInProcess(t *testing.T) {
	q, err := queue.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	specs := []queue.Spec{{Queue: "mail", Type: "good"}, {Queue: "mail", Type: "bad"}, {Queue: "mail", Type: "later"}, {Queue: "mail", Type: "long"}}
	jobs, _, err := q.Enqueue(t.Context(), specs...)
	if err != nil {
		t.Fatal(err)
	}
	long := make(chan struct{})
	w, err := client.NewWorker(node.Source(q, nil), client.WorkerOptions{
		Queues: []string{"mail"}, Concurrency: 4,
		Handlers: map[string]client.Handler{
			"good":  func(context.Context, client.Claimed) (any, error) { return 7, nil },
			"bad":   func(context.Context, client.Claimed) (any, error) { return nil, client.Fatal(errors.New("oh")) },
			"later": func(context.Context, client.Claimed) (any, error) { return nil, client.Snooze(time.Hour) },
			"long": func(_ context.Context, job client.Claimed) (any, error) {
				err := job.Progress("half")
				<-long
				return nil, err
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return w.Run(ctx) })
	reaches := func(i int, ok func(queue.Job) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			job, err := q.Job(t.Context(), jobs[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			if ok(job) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("job %d is %+v", i, job)
			}
		}
	}
	reaches(0, func(j queue.Job) bool { return j.State == queue.StateDone && string(j.Result) == "7" })
	reaches(1, func(j queue.Job) bool { return j.State == queue.StateDead && j.LastError == "oh" })
	reaches(2, func(j queue.Job) bool { return j.State == queue.StateScheduled && j.Failures == 0 })
	reaches(3, func(j queue.Job) bool { return string(j.Progress) == `"half"` })
	close(long)
	reaches(3, func(j queue.Job) bool { return j.State == queue.StateDone })
	stop()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	t.Run("errors are those of a client", func(t *testing.T) {
		s := node.Source(q, nil)
		results, err := s.Ack(t.Context(), client.Ack{Lease: "1.1.1.x"})
		if err != nil || len(results) != 1 || !errors.Is(results[0].Err(), client.ErrLeaseLost) {
			t.Errorf("got %+v, %v", results, err)
		}
		_, err = s.Claim(t.Context(), client.ClaimRequest{Queues: []string{"a b"}})
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != client.CodeInvalid || e.Status != 400 {
			t.Errorf("got %v", err)
		}
	})
}
