package tests_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/node/client"
)

// commit is the value of the header Holdfast-Seq: an epoch and a commit in it.
type commit struct{ epoch, n int64 }

func parseCommit(text string) (c commit) {
	epoch, n, _ := strings.Cut(text, ".")
	c.epoch, _ = strconv.ParseInt(epoch, 10, 64) // 0 of an answer without one
	c.n, _ = strconv.ParseInt(n, 10, 64)
	return c
}

// promise is what one answer said of one job.
type promise struct {
	sent, got time.Time
	node      string
	what      string // enqueue, claim or ack
	id, key   string
	run       int64
	lease     int64  // the epoch in the lease token
	at        commit // of the answer
	durable   bool   // the answer came after replication
}

func (p promise) String() string {
	return fmt.Sprintf("%s…%s %s by %s: job %s key %q run %d of epoch %d, at %d.%d, replicated %v",
		p.sent.Format("05.000"), p.got.Format("05.000"), p.what, p.node, p.id, p.key, p.run, p.lease, p.at.epoch, p.at.n, p.durable)
}

// chaosHistory is what clients were told in all epochs.
type chaosHistory struct {
	mu       sync.Mutex
	promises []promise
	safe     map[int64]int64 // epoch → the newest commit that an answer called replicated
}

func newChaosHistory() *chaosHistory { return &chaosHistory{safe: map[int64]int64{}} }

// saw records the promises of one answer.
func (h *chaosHistory) saw(replicated commit, promises ...promise) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.safe[replicated.epoch] = max(h.safe[replicated.epoch], replicated.n)
	h.promises = append(h.promises, promises...)
}

// chaosVerdict is the last line of TestChaos.
type chaosVerdict struct {
	Failovers     int64 `json:"failovers"`       // epochs that became ready after the first
	Acknowledged  int   `json:"acknowledged"`    // enqueues and acks that were answered after replication
	Lost          int   `json:"lost"`            // of them, those that are not in the final state
	DoubleClaims  int   `json:"double_claims"`   // runs of one epoch that were handed out twice
	StaleAcks     int   `json:"stale_acks"`      // acks taken for a run that had been followed by another
	TakeoverMaxMS int64 `json:"takeover_max_ms"` // from the death of a primary to the next, while object storage was well
}

// chaosCheck holds a history against the jobs that are there in the end.
type chaosCheck struct {
	safe     map[int64]int64
	jobs     map[string]client.Job
	verdict  chaosVerdict
	beyond   int // local answers that a takeover forgot, as they may
	problems []string
}

// check judges the history. With naive, answers that did not wait for
// replication count as if they had.
func (h *chaosHistory) check(jobs map[string]client.Job, naive bool) *chaosCheck {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &chaosCheck{safe: h.safe, jobs: jobs}
	byJob := map[string][]promise{}
	for _, p := range h.promises {
		p.durable = p.durable || naive && p.what != "claim"
		byJob[p.id] = append(byJob[p.id], p)
	}
	for _, all := range byJob {
		slices.SortStableFunc(all, func(a, b promise) int { return a.got.Compare(b.got) })
		for i, p := range all {
			switch p.what {
			case "enqueue":
				c.enqueue(all, p)
			case "claim":
				c.claim(all, i)
			case "ack":
				c.ack(all, i)
			}
		}
	}
	c.keys()
	c.reigns(h.promises)
	return c
}

// reigns looks for requests that one primary answered although they were sent
// after the first answer of a later one.
func (c *chaosCheck) reigns(promises []promise) {
	first := map[int64]time.Time{} // epoch → its first answer
	var last int64
	for _, p := range promises {
		if at, ok := first[p.at.epoch]; !ok || p.got.Before(at) {
			first[p.at.epoch] = p.got
		}
		last = max(last, p.at.epoch)
	}
	for epoch := last - 1; epoch > 0; epoch-- { // each holds the earliest of it and the later ones
		at, ok := first[epoch]
		if next := first[epoch+1]; !ok || next.Before(at) {
			first[epoch] = next
		}
	}
	for _, p := range promises {
		if next, ok := first[p.at.epoch+1]; ok && p.sent.After(next) {
			c.problems = append(c.problems, fmt.Sprintf("two primaries at once, the later since %s: %s", next.Format("05.000"), p))
		}
	}
}

func (c *chaosCheck) broken(count *int, all []promise, format string, args ...any) {
	*count++
	text := fmt.Sprintf(format, args...)
	for _, p := range all {
		text += "\n    " + p.String()
	}
	c.problems = append(c.problems, text)
}

// missing counts what is not there: it is lost if it was said to be replicated,
// by its own answer or by a later one.
func (c *chaosCheck) missing(all []promise, p promise, there bool) {
	if p.durable {
		c.verdict.Acknowledged++
	}
	switch {
	case there:
	case p.durable:
		c.broken(&c.verdict.Lost, all, "lost: %s; in the end: %s", p, c.final(p.id))
	case p.at.n <= c.safe[p.at.epoch]:
		c.broken(&c.verdict.Lost, all, "lost, though %d.%d was said to be replicated: %s; in the end: %s", p.at.epoch, c.safe[p.at.epoch], p, c.final(p.id))
	default:
		c.beyond++
	}
}

func (c *chaosCheck) final(id string) string {
	job, ok := c.jobs[id]
	if !ok {
		return "missing"
	}
	return fmt.Sprintf("%s in run %d", job.State, job.Run)
}

func (c *chaosCheck) enqueue(all []promise, p promise) {
	job, ok := c.jobs[p.id]
	c.missing(all, p, ok && keyOf(job) == p.key)
}

// claim looks for a second claim of the same run, and for an ack that was
// forgotten.
func (c *chaosCheck) claim(all []promise, i int) {
	p := all[i]
	for _, q := range all[:i] {
		switch {
		case q.what == "claim" && q.run == p.run && q.lease == p.lease:
			c.broken(&c.verdict.DoubleClaims, all, "handed out twice: %s", p)
		case q.what == "ack" && q.durable && q.got.Before(p.sent):
			c.broken(&c.verdict.Lost, all, "handed out after its ack: %s", p)
		}
	}
}

// ack looks for a sign that the run was not the job's last one when its ack was
// taken.
func (c *chaosCheck) ack(all []promise, i int) {
	p := all[i]
	job, ok := c.jobs[p.id]
	c.missing(all, p, ok && job.State == "done" && job.Run == p.run)
	if p.lease != p.at.epoch {
		c.broken(&c.verdict.StaleAcks, all, "acked with a lease of another epoch: %s", p)
		return
	}
	for j, q := range all {
		other := q.run != p.run || q.lease != p.lease
		switch {
		case !other:
		case q.what == "claim" && q.lease == p.lease && q.run > p.run && q.at.n < p.at.n,
			q.what == "ack" && q.durable && j < i:
			c.broken(&c.verdict.StaleAcks, all, "acked after another run: %s", p)
			return
		}
	}
}

// keys finds jobs that were made twice for one idempotency key.
func (c *chaosCheck) keys() {
	seen := map[string]string{}
	for id, job := range c.jobs {
		key := keyOf(job)
		if other, ok := seen[key]; ok {
			c.problems = append(c.problems, fmt.Sprintf("key %q made the jobs %s and %s", key, id, other))
		}
		seen[key] = id
	}
}

// keyOf is the idempotency key of a job of this load, which its payload repeats.
func keyOf(job client.Job) string {
	var payload struct{ Key string }
	_ = json.Unmarshal(job.Payload, &payload) // then it is of no one
	return payload.Key
}

// TestChaosCheck shows that the checker sees each kind of broken promise.
func TestChaosCheck(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	tests := map[string]struct {
		promises []promise
		want     chaosVerdict
		beyond   int
		problems int
	}{
		"all is well": {[]promise{
			{what: "enqueue", id: "1", key: "a", at: commit{1, 1}, durable: true, got: at(1)},
			{what: "claim", id: "2", run: 1, lease: 1, at: commit{1, 2}, got: at(2)},
			{what: "claim", id: "2", run: 1, lease: 2, at: commit{2, 2}, got: at(3)},
			{what: "ack", id: "2", run: 1, lease: 2, at: commit{2, 3}, durable: true, got: at(4)},
			{what: "ack", id: "2", run: 1, lease: 2, at: commit{2, 3}, durable: true, got: at(5)},
		}, chaosVerdict{Acknowledged: 3}, 0, 0},
		"a replicated enqueue was lost": {[]promise{
			{what: "enqueue", id: "3", key: "c", at: commit{1, 1}, durable: true},
		}, chaosVerdict{Acknowledged: 1, Lost: 1}, 0, 1},
		"an id has another key": {[]promise{
			{what: "enqueue", id: "1", key: "c", at: commit{1, 1}, durable: true},
		}, chaosVerdict{Acknowledged: 1, Lost: 1}, 0, 1},
		"a local enqueue was lost that was said to be replicated later": {[]promise{
			{what: "enqueue", id: "3", key: "c", at: commit{1, 5}},
		}, chaosVerdict{Lost: 1}, 0, 1},
		"a local enqueue beyond the replica may go": {[]promise{
			{what: "enqueue", id: "3", key: "c", at: commit{1, 6}},
		}, chaosVerdict{}, 1, 0},
		"an ack was lost": {[]promise{
			{what: "ack", id: "1", run: 1, lease: 1, at: commit{1, 1}, durable: true},
		}, chaosVerdict{Acknowledged: 1, Lost: 1}, 0, 1},
		"an ack was lost and the job done again": {[]promise{
			{what: "ack", id: "2", run: 1, lease: 1, at: commit{1, 6}, durable: true, got: at(1)},
			{what: "claim", id: "2", run: 1, lease: 2, at: commit{2, 2}, sent: at(2), got: at(3)},
		}, chaosVerdict{Acknowledged: 1, Lost: 1}, 0, 1},
		"a run was handed out twice": {[]promise{
			{what: "claim", id: "2", run: 1, lease: 1, at: commit{1, 2}},
			{what: "claim", id: "2", run: 1, lease: 1, at: commit{1, 3}},
		}, chaosVerdict{DoubleClaims: 1}, 0, 1},
		"an ack was taken with a lease of the epoch before": {[]promise{
			{what: "ack", id: "2", run: 1, lease: 1, at: commit{2, 3}},
		}, chaosVerdict{StaleAcks: 1}, 0, 1},
		"an ack was taken though the job had been claimed again": {[]promise{
			{what: "claim", id: "2", run: 2, lease: 1, at: commit{1, 2}},
			{what: "ack", id: "2", run: 1, lease: 1, at: commit{1, 3}},
		}, chaosVerdict{StaleAcks: 1}, 0, 1},
		"two runs were acked": {[]promise{
			{what: "ack", id: "2", run: 1, lease: 1, at: commit{1, 3}, durable: true, got: at(1)},
			{what: "ack", id: "2", run: 1, lease: 2, at: commit{2, 9}, durable: true, got: at(2)},
		}, chaosVerdict{Acknowledged: 2, StaleAcks: 1}, 0, 1},
		"two primaries answered at once": {[]promise{
			{what: "claim", id: "2", run: 1, lease: 3, at: commit{3, 2}, sent: at(1), got: at(2)},
			{what: "claim", id: "1", run: 1, lease: 1, at: commit{1, 9}, sent: at(3), got: at(4)},
			{what: "claim", id: "1", run: 2, lease: 1, at: commit{1, 9}, sent: at(1), got: at(4)},
		}, chaosVerdict{}, 0, 1},
		"one key made two jobs": {[]promise{
			{what: "enqueue", id: "4", key: "a", at: commit{1, 1}, durable: true},
		}, chaosVerdict{Acknowledged: 1}, 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newChaosHistory()
			h.saw(commit{1, 5}, tt.promises...)
			jobs := map[string]client.Job{
				"1": {ID: "1", State: "queued", Payload: []byte(`{"key":"a"}`)},
				"2": {ID: "2", State: "done", Run: 1, Payload: []byte(`{"key":"b"}`)},
			}
			if name == "one key made two jobs" {
				jobs["4"] = client.Job{ID: "4", State: "queued", Payload: []byte(`{"key":"a"}`)}
			}
			got := h.check(jobs, false)
			if got.verdict != tt.want || got.beyond != tt.beyond || len(got.problems) != tt.problems {
				t.Errorf("got %+v, %d beyond, %q; want %+v, %d beyond, %d problems", got.verdict, got.beyond, got.problems, tt.want, tt.beyond, tt.problems)
			}
		})
	}
	t.Run("without a fence a local answer counts as replicated", func(t *testing.T) {
		h := newChaosHistory()
		h.saw(commit{1, 5}, promise{what: "enqueue", id: "3", key: "c", at: commit{1, 6}})
		if got := h.check(nil, true).verdict; got != (chaosVerdict{Acknowledged: 1, Lost: 1}) {
			t.Errorf("got %+v", got)
		}
	})
}

// report says what is wrong, the first problems whole.
func (c *chaosCheck) report(t *testing.T) {
	t.Helper()
	slices.SortFunc(c.problems, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for i, problem := range c.problems {
		if i == 10 {
			t.Errorf("and %d more", len(c.problems)-i)
			break
		}
		t.Error(problem)
	}
}
