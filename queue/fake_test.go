package queue

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// fakeClock is a machine's clock that a test moves.
type fakeClock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

func newFakeClock() *fakeClock { return &fakeClock{wall: time.UnixMilli(1_800_000_000_000)} }

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

func (c *fakeClock) monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// pass lets time pass.
func (c *fakeClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// set steps the wall clock, as an operator or NTP does.
func (c *fakeClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(by)
}

func openFake(t testing.TB, path string, c *fakeClock, opts Options) *Queue {
	t.Helper()
	opts.Now, opts.mono, opts.DiskWatermark = c.now, c.monotonic, -1
	q, err := Open(context.Background(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

func newFake(t testing.TB) (*Queue, *fakeClock, string) {
	t.Helper()
	c, path := newFakeClock(), filepath.Join(t.TempDir(), "q.db")
	return openFake(t, path, c, Options{}), c, path
}

// keepHouse lets the writer do all the housekeeping that is due.
func keepHouse(t testing.TB, q *Queue) {
	t.Helper()
	for range 10_000 {
		due := false
		run(t, q, func(r *round) { due = r.w.due.sleep(r.now) == 0 })
		if !due {
			return
		}
	}
	t.Fatal("the housekeeping does not end")
}

// run executes f in the writer's turn.
func run(t testing.TB, q *Queue, f func(*round)) {
	t.Helper()
	if err := q.do(context.Background(), &op{admin: func(r *round) error { f(r); return nil }}); err != nil {
		t.Fatal(err)
	}
}

func mustEnqueue(t testing.TB, q *Queue, specs ...Spec) []Enqueued {
	t.Helper()
	out, _, err := q.Enqueue(context.Background(), specs...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustClaim(t testing.TB, q *Queue, queue string, n int) []Claimed {
	t.Helper()
	out, _, err := q.Claim(context.Background(), ClaimRequest{Queues: []string{queue}, Max: n, Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	return out.Jobs
}

func mustJob(t testing.TB, q *Queue, id int64) Job {
	t.Helper()
	j, err := q.Job(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// mustRecount fails when a counter is not what the rows say.
func mustRecount(t testing.TB, q *Queue) {
	t.Helper()
	diff, err := q.Recount(context.Background())
	if err != nil || len(diff) > 0 {
		t.Errorf("the counters are wrong: %+v, %v", diff, err)
	}
}
