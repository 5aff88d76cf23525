package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/queue"
)

// bury makes n dead jobs of an error.
func bury(t *testing.T, q *queue.Queue, name, typ, message string, n int) (dead []int64) {
	t.Helper()
	specs := make([]queue.Spec, n)
	for i := range specs {
		specs[i] = queue.Spec{Queue: name, Type: typ, Priority: 9}
	}
	enqueue(t, q, specs...)
	var fails []queue.Fail
	for _, j := range claim(t, q, n, name) {
		fails = append(fails, queue.Fail{Lease: j.Lease, Error: message, Fatal: true})
		dead = append(dead, j.ID)
	}
	if _, _, err := q.Fail(ctx, fails); err != nil {
		t.Fatal(err)
	}
	return dead
}

func TestBulk(t *testing.T) {
	q, path := newQueue(t)
	bury(t, q, "mail", "a", "smtp 451 from 10.0.0.1", 60)
	bury(t, q, "mail", "b", "smtp 452 from 10.0.0.2", 30)
	other := bury(t, q, "mail", "b", "out of memory", 15)
	bury(t, q, "sms", "a", "smtp 453 from 10.0.0.3", 10)
	smtp := queue.Filter{Queue: "mail", ErrorFP: func() string {
		page, err := q.Jobs(ctx, queue.Filter{Queue: "sms", State: queue.StateDead})
		if err != nil {
			t.Fatal(err)
		}
		return page.Jobs[0].ErrorFP
	}()}
	counts := func(name string) queue.Counts {
		info, err := q.Queues(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return info[slices.IndexFunc(info, func(i queue.Info) bool { return i.Name == name })].Counts
	}
	for name, c := range map[string]struct {
		f    queue.Filter
		want int
	}{
		"everything":     {queue.Filter{}, 115},
		"queue":          {queue.Filter{Queue: "mail"}, 105},
		"type":           {queue.Filter{Type: "b"}, 45},
		"error":          {smtp, 90},
		"error anywhere": {queue.Filter{ErrorFP: smtp.ErrorFP}, 100},
		"since":          {queue.Filter{FinishedSince: time.Now().Add(-time.Minute)}, 115},
		"before":         {queue.Filter{FinishedBefore: time.Now().Add(-time.Minute)}, 0},
	} {
		seq := q.Seq()
		got, _, err := q.RetryDead(ctx, c.f, true)
		if err != nil || got.Count != c.want || got.Next != "" || q.Seq() != seq {
			t.Errorf("dry run, %s: %+v, %v, want %d", name, got, err, c.want)
		}
	}
	steps, total := 0, 0
	for smtp.Limit = 40; ; steps++ {
		got, _, err := q.RetryDead(ctx, smtp, false)
		if err != nil || got.Count > 40 {
			t.Fatalf("%+v %v", got, err)
		}
		total += got.Count
		if smtp.After = got.Next; got.Next == "" {
			break
		}
	}
	if total != 90 || counts("mail").Queued != 90 || counts("mail").Dead != 15 {
		t.Errorf("%d retried in %d steps, counts %+v", total, steps, counts("mail"))
	}
	got, _, err := q.ArchiveDead(ctx, queue.Filter{Queue: "mail"}, false)
	if err != nil || got.Count != 15 || counts("mail").Dead != 0 {
		t.Errorf("archive %+v, %v, counts %+v", got, err, counts("mail"))
	}
	if got, _, err := q.ArchiveDead(ctx, queue.Filter{Queue: "mail", Archived: true}, true); err != nil || got.Count != 0 {
		t.Errorf("there is nothing left to archive: %+v, %v", got, err)
	}
	page, err := q.Jobs(ctx, queue.Filter{Queue: "mail", State: queue.StateDead})
	if err != nil || len(page.Jobs) != 0 {
		t.Errorf("archived jobs are listed: %d, %v", len(page.Jobs), err)
	}
	page, err = q.Jobs(ctx, queue.Filter{Queue: "mail", State: queue.StateDead, Archived: true})
	if err != nil || len(page.Jobs) != 15 || page.Jobs[0].ArchivedAt.IsZero() {
		t.Errorf("archived jobs when asked for: %d, %v", len(page.Jobs), err)
	}
	if j, _, err := q.Retry(ctx, other[0], payload("again")); err != nil || j.State != queue.StateQueued || !j.ArchivedAt.IsZero() || string(j.Payload) != `"again"` {
		t.Errorf("retry of an archived job: %+v, %v", j, err)
	}
	_, _, err = q.RetryDead(ctx, queue.Filter{Queue: "nope"}, false)
	wantErr(t, err, queue.ErrNoQueue)
	if _, _, err := q.RetryDead(ctx, queue.Filter{Limit: 1001}, false); err == nil {
		t.Error("a step of 1,001 was accepted")
	}
	checkCounts(t, path)
}

func TestArchive(t *testing.T) {
	q, path := newQueue(t)
	spec := queue.Spec{Queue: "mail", IdempotencyKey: "k"}
	in := enqueue(t, q, spec)[0]
	_, _, err := q.Archive(ctx, in.ID)
	wantErr(t, err, queue.ErrWrongState)
	fail(t, q, queue.Fail{Lease: claimOne(t, q, "mail").Lease, Fatal: true})
	for range 2 { // twice is no error
		if j, _, err := q.Archive(ctx, in.ID); err != nil || j.ArchivedAt.IsZero() || j.State != queue.StateDead {
			t.Errorf("archived %+v, %v", j, err)
		}
	}
	again := enqueue(t, q, spec)[0]
	if again.Duplicate {
		t.Error("an archived job holds its key")
	}
	if _, _, err := q.Retry(ctx, in.ID, nil); err != nil { // without its key
		t.Error(err)
	}
	if third := enqueue(t, q, spec)[0]; !third.Duplicate || third.ID != again.ID {
		t.Errorf("the key is of %+v, want %d", third, again.ID)
	}
	checkCounts(t, path)
}

// TestDelete and what each state says to a cancel.
func TestDelete(t *testing.T) {
	q, path := newQueue(t)
	make1 := map[queue.State]func() int64{
		queue.StateScheduled: func() int64 { return enqueue(t, q, queue.Spec{Queue: "s", Delay: time.Hour})[0].ID },
		queue.StateQueued:    func() int64 { return enqueue(t, q, queue.Spec{Queue: "q", IdempotencyKey: "k"})[0].ID },
		queue.StateRunning: func() int64 {
			enqueue(t, q, queue.Spec{Queue: "r"})
			return claimOne(t, q, "r").ID
		},
		queue.StateDone: func() int64 {
			enqueue(t, q, queue.Spec{Queue: "o", Payload: payload(string(make([]byte, 999)))})
			c := claimOne(t, q, "o")
			wantErr(t, ack(t, q, c.Lease), nil)
			return c.ID
		},
		queue.StateDead: func() int64 { return bury(t, q, "d", "", "x", 1)[0] },
		queue.StateCancelled: func() int64 {
			id := enqueue(t, q, queue.Spec{Queue: "c"})[0].ID
			if _, _, err := q.Cancel(ctx, id); err != nil {
				t.Error(err)
			}
			return id
		},
	}
	for state, make1 := range make1 {
		t.Run(fmt.Sprintf("a %s job", state), func(t *testing.T) {
			id := make1()
			_, _, err := q.Cancel(ctx, id)
			if refused := state == queue.StateDone || state == queue.StateDead; refused {
				wantErr(t, err, queue.ErrWrongState)
			} else if err != nil {
				t.Errorf("cancel: %v", err)
			}
			id = make1()
			_, err = q.Delete(ctx, id)
			if state == queue.StateRunning {
				wantErr(t, err, queue.ErrWrongState)
				return
			}
			wantErr(t, err, nil)
			_, err = q.Job(ctx, id)
			wantErr(t, err, queue.ErrNotFound)
			_, err = q.Delete(ctx, id)
			wantErr(t, err, queue.ErrNotFound)
		})
	}
	if in := enqueue(t, q, queue.Spec{Queue: "q", IdempotencyKey: "k"})[0]; in.Duplicate {
		t.Error("a deleted job holds its key")
	}
	checkCounts(t, path)
}
