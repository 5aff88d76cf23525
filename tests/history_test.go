package tests_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"holdfast/node/client"
)

// history is what clients were told: the promises that a node has to keep over
// every kill.
type history struct {
	mu       sync.Mutex
	enqueued map[string]string // id → idempotency key
	acked    map[string]int64  // id → run
	claims   map[claimed]bool
	problems []string // that showed at once
}

// claimed names a run.
type claimed struct {
	id  string
	run int64
}

func newHistory() *history {
	return &history{enqueued: map[string]string{}, acked: map[string]int64{}, claims: map[claimed]bool{}}
}

func (h *history) problem(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// sawEnqueue records an acknowledged enqueue.
func (h *history) sawEnqueue(key, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, ok := h.enqueued[id]; ok && other != key {
		h.problem("job %s was given to key %s and to key %s", id, other, key)
	}
	h.enqueued[id] = key
}

// sawClaim records a run that was handed out.
func (h *history) sawClaim(id string, run int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.claims[claimed{id, run}] {
		h.problem("run %d of job %s was handed out twice", run, id)
	}
	h.claims[claimed{id, run}] = true
}

// sawAck records an acknowledged ack.
func (h *history) sawAck(id string, run int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, ok := h.acked[id]; ok && other != run {
		h.problem("job %s was acked in run %d and in run %d", id, other, run)
	}
	h.acked[id] = run
}

// verdict is the last line of TestKill9.
type verdict struct {
	Acknowledged int `json:"acknowledged"` // enqueues and acks
	Missing      int `json:"missing"`      // of them, and every other broken promise
}

// check holds the jobs that are there in the end against the history. Every
// client must have finished its retries by then, so each job of the node is
// one that some client knows.
func (h *history) check(jobs map[string]client.Job) (verdict, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	problems := slices.Clone(h.problems)
	broken := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for id, key := range h.enqueued {
		if _, ok := jobs[id]; !ok {
			broken("job %s (%s) was acknowledged and is missing", id, key)
		}
	}
	for id, run := range h.acked {
		// Another run than the acked one means that the ack was forgotten and
		// the job done again.
		if job, ok := jobs[id]; ok && (job.State != "done" || job.Run != run) {
			broken("job %s was acked in run %d and is %s in run %d", id, run, job.State, job.Run)
		}
	}
	for id := range jobs {
		if _, ok := h.enqueued[id]; !ok {
			broken("job %s is one too many: its key gave its client another job", id)
		}
	}
	return verdict{Acknowledged: len(h.enqueued) + len(h.acked), Missing: len(problems)}, problems
}

// TestHistoryCheck shows that the checker sees each kind of broken promise.
func TestHistoryCheck(t *testing.T) {
	tests := map[string]struct {
		change  func(*history, map[string]client.Job)
		missing int
	}{
		"nothing is missing": {func(*history, map[string]client.Job) {}, 0},
		"an enqueue was lost": {func(_ *history, jobs map[string]client.Job) {
			delete(jobs, "1")
		}, 1},
		"an ack was lost": {func(_ *history, jobs map[string]client.Job) {
			jobs["2"] = client.Job{ID: "2", State: "queued", Run: 1}
		}, 1},
		"an ack was lost and the job done again": {func(_ *history, jobs map[string]client.Job) {
			jobs["2"] = client.Job{ID: "2", State: "done", Run: 2}
		}, 1},
		"a run was handed out twice": {func(h *history, _ map[string]client.Job) {
			h.sawClaim("2", 1)
		}, 1},
		"two runs were acked": {func(h *history, jobs map[string]client.Job) {
			h.sawAck("2", 2)
			jobs["2"] = client.Job{ID: "2", State: "done", Run: 2}
		}, 1},
		"an id was given twice": {func(h *history, _ map[string]client.Job) {
			h.sawEnqueue("other", "1")
		}, 1},
		"a key made two jobs": {func(_ *history, jobs map[string]client.Job) {
			jobs["3"] = client.Job{ID: "3", State: "queued"}
		}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			h.sawEnqueue("a", "1")
			h.sawEnqueue("b", "2")
			h.sawClaim("2", 1)
			h.sawAck("2", 1)
			jobs := map[string]client.Job{"1": {ID: "1", State: "queued"}, "2": {ID: "2", State: "done", Run: 1}}
			tt.change(h, jobs)
			got, problems := h.check(jobs)
			if got.Missing != tt.missing || got.Acknowledged != 3 {
				t.Errorf("got %+v, want %d missing of 3: %q", got, tt.missing, problems)
			}
		})
	}
}
