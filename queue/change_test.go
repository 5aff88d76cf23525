package queue

import (
	"fmt"
	"sync"
	"testing"
)

// witness believes what OnChange tells, and nothing else.
type witness struct {
	mu     sync.Mutex
	jobs   map[int64]Change // the last of each that is there
	seq    Seq
	faults []string
}

func (w *witness) told(seq Seq, changes []Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs = map[int64]Change{}
	}
	if seq.Epoch < w.seq.Epoch || seq.Epoch == w.seq.Epoch && seq.N <= w.seq.N {
		w.faults = append(w.faults, fmt.Sprintf("%v after %v", seq, w.seq))
	}
	w.seq = seq
	for _, c := range changes {
		before := w.jobs[c.Job]
		if before.To != c.From || c.From != 0 && before.Queue != c.Queue || c.From == c.To {
			w.faults = append(w.faults, fmt.Sprintf("%+v after %+v", c, before))
		}
		if w.jobs[c.Job] = c; c.To == 0 {
			delete(w.jobs, c.Job)
		}
	}
}

// compare checks what was told against what is.
func (w *witness) compare(t *testing.T, q *Queue) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fault := range w.faults {
		t.Error("told of", fault)
	}
	n := 0
	for j, err := range q.Export(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if told := w.jobs[j.ID]; told.To != j.State || told.Queue != j.Queue {
			t.Errorf("job %d of %s is %s; told of %+v", j.ID, j.Queue, j.State, told)
		}
	}
	if n != len(w.jobs) {
		t.Errorf("there are %d jobs; told of %d", n, len(w.jobs))
	}
}

func TestTraceparentIsNoPartOfTheKey(t *testing.T) {
	q, _, _ := newFake(t)
	const first, second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	add := func(trace string) Enqueued {
		t.Helper()
		out, _, err := q.Enqueue(ctx, Spec{Queue: "a", IdempotencyKey: "k", Tags: map[string]string{"t": "1"}, Traceparent: trace})
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	job := add(first)
	for _, trace := range []string{second, ""} {
		if again := add(trace); again.ID != job.ID || !again.Duplicate {
			t.Errorf("with %q: got %+v, want a duplicate of %d", trace, again, job.ID)
		}
	}
	claims, _, err := q.Claim(ctx, ClaimRequest{Queues: []string{"a"}})
	if err != nil || len(claims.Jobs) != 1 || claims.Jobs[0].Traceparent != first {
		t.Errorf("claimed %+v, %v, want the trace %s", claims.Jobs, err, first)
	}
	if got, err := q.Job(ctx, job.ID); err != nil || got.Traceparent != first || got.Tags["t"] != "1" {
		t.Errorf("got %+v, %v", got, err)
	}
}
