package queue

import (
	"errors"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// spanBuckets are the upper bounds of the buckets of a [Spans], but for the last,
// which has none.
var spanBuckets = [...]time.Duration{
	5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
	15 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
}

// SpanBuckets returns the upper bounds that the buckets of a [Spans] have.
func SpanBuckets() []time.Duration { return slices.Clone(spanBuckets[:]) }

// Spans is how long things took.
type Spans struct {
	Count   int64
	Sum     time.Duration
	Buckets [len(spanBuckets) + 1]int64 // how many took longer than the bound before and not longer than this one
}

func (s *Spans) add(ms int64) {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	i := 0
	for i < len(spanBuckets) && d > spanBuckets[i] {
		i++
	}
	s.Count, s.Sum = s.Count+1, s.Sum+d
	s.Buckets[i]++
}

func (s *Spans) merge(other *Spans) {
	s.Count, s.Sum = s.Count+other.Count, s.Sum+other.Sum
	for i, n := range other.Buckets {
		s.Buckets[i] += n
	}
}

// Meter is what a queue has done since the file was opened.
type Meter struct {
	Queue                                            string
	Enqueued, Claimed, Done, Failed, Dead, Cancelled int64
	// Wait is from when a job could be claimed to its claim; Run is from the claim
	// to the end of the run, whatever that was.
	Wait, Run Spans
}

// Load is how much the writer has to do, counted since the file was opened.
type Load struct {
	Rounds int64         // transactions, also those that changed nothing
	Busy   time.Duration // that the writer spent in them
	Locked int64         // transactions that failed because somebody else held the file
}

// meters keep what was counted; the writer adds, anybody reads.
type meters struct {
	mu   sync.Mutex
	by   map[string]*Meter
	load Load
}

// worked counts a turn of the writer.
func (m *meters) worked(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load.Rounds, m.load.Busy = m.load.Rounds+1, m.load.Busy+d
}

// refused counts a round that failed, if it was for a lock.
func (m *meters) refused(err error) {
	if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != sqlite3.SQLITE_BUSY {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load.Locked++
}

// add counts what a round did, once it is committed.
func (m *meters) add(deltas map[*queueState]*delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for q, d := range deltas {
		one := m.by[q.name]
		if one == nil {
			if m.by == nil {
				m.by = map[string]*Meter{}
			}
			one = &Meter{Queue: q.name}
			m.by[q.name] = one
		}
		one.Enqueued, one.Done, one.Failed, one.Dead = one.Enqueued+d.in, one.Done+d.out, one.Failed+d.failed, one.Dead+d.dead
		one.Claimed, one.Cancelled = one.Claimed+d.wait.Count, one.Cancelled+d.cancelled
		one.Wait.merge(&d.wait)
		one.Run.merge(&d.run)
	}
}

// Meters returns what each queue has done since the file was opened, of those
// that did something, by name.
func (q *Queue) Meters() []Meter {
	m := &q.w.meters
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Meter, 0, len(m.by))
	for _, one := range m.by {
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b Meter) int {
		if a.Queue < b.Queue {
			return -1
		}
		return 1
	})
	return out
}

// Load returns how much the writer has had to do since the file was opened.
func (q *Queue) Load() Load {
	q.w.meters.mu.Lock()
	defer q.w.meters.mu.Unlock()
	return q.w.meters.load
}
