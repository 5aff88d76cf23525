package queue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// model is the queue in memory, as simple as can be: no index, no batch, no
// file. TestModel does to both the same, and compares.
type model struct {
	jobs   map[int64]*modelJob
	queues map[string]*modelQueue
	keys   map[string]modelKey
	turns  *turns

	wall, mono, shift, paused int64 // ms, as in the clock and the agenda
}

type modelJob struct {
	id                                   int64
	queue, typ, payload, lastError       string
	worker                               string // while it runs
	state                                State
	priority, attempts                   int
	run                                  int64
	failures, crashes, interruptions     int
	runAt, at, started, expires, timeout int64
	cancel, archived, graced, oldEpoch   bool
}

type modelQueue struct {
	paused  bool
	depth   int64
	keepAge int64 // ms, of done jobs
	last    int   // of done jobs
	deadAge int64 // ms; 0: for ever
}

type modelKey struct {
	job  int64
	body string
}

func newModel(c *fakeClock) *model {
	m := &model{jobs: map[int64]*modelJob{}, queues: map[string]*modelQueue{}, keys: map[string]modelKey{}, turns: &turns{}}
	m.read(c)
	m.shift = m.wall - m.mono
	return m
}

func (m *model) read(c *fakeClock) {
	m.wall, m.mono = c.now().UnixMilli(), c.monotonic().Milliseconds()
}

func (m *model) lease() int64 { return m.shift + m.mono }

// sorted returns the jobs for which ok holds, by id.
func (m *model) sorted(ok func(*modelJob) bool) []*modelJob {
	var out []*modelJob
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if ok(m.jobs[id]) {
			out = append(out, m.jobs[id])
		}
	}
	return out
}

func (m *model) count(queue string, states ...State) int64 {
	return int64(len(m.sorted(func(j *modelJob) bool { return j.queue == queue && !j.archived && slices.Contains(states, j.state) })))
}

// keepHouse is what the writer does by itself. Where a back-off is drawn by
// lot, runAt asks the queue and checks the answer.
func (m *model) keepHouse(runAt func(j *modelJob, least time.Duration) int64) {
	if by := m.wall - m.lease(); by > maxDrift || by < -maxDrift {
		for _, j := range m.jobs {
			if j.state == StateRunning {
				j.at, j.started = j.at+by, j.started+by
			}
		}
		m.shift += by
		m.paused = m.mono + stepPause
	}
	for _, j := range m.sorted(func(j *modelJob) bool { return j.state == StateRunning && j.at <= m.lease() }) {
		m.lapse(j, runAt)
	}
	for _, j := range m.jobs {
		if j.state == StateScheduled && j.at <= m.wall {
			j.state = StateQueued
		}
		if (j.state == StateScheduled || j.state == StateQueued) && j.expires != 0 && j.expires <= m.wall && m.mono >= m.paused {
			m.expire(j)
		}
	}
	if m.mono >= m.paused {
		m.retain()
	}
}

func (m *model) expire(j *modelJob) {
	j.lastError = expiredReason
	m.end(j, StateDead)
}

func (m *model) retain() {
	old := map[string][]*modelJob{} // done jobs of a queue, the oldest first
	for _, j := range m.sorted(func(j *modelJob) bool { return j.state.Final() }) {
		q, age := m.queues[j.queue], DefaultRetention.Milliseconds()
		switch j.state {
		case StateDone:
			age = cmp.Or(q.keepAge, age)
		case StateDead:
			age = cmp.Or(q.deadAge, never)
		}
		if j.at <= m.wall-age {
			delete(m.jobs, j.id)
		} else if j.state == StateDone {
			old[j.queue] = append(old[j.queue], j)
		}
	}
	for name, jobs := range old {
		slices.SortStableFunc(jobs, func(a, b *modelJob) int { return cmp.Compare(a.at, b.at) })
		for len(jobs) > m.queues[name].last && m.queues[name].last > 0 {
			delete(m.jobs, jobs[0].id)
			jobs = jobs[1:]
		}
	}
}

// end moves a job to a state; at is set for those that have a time.
func (m *model) end(j *modelJob, to State) {
	j.state, j.graced, j.oldEpoch = to, false, false
	if to.Final() {
		j.at = m.wall
	}
}

// later schedules a job for runAt.
func (m *model) later(j *modelJob, runAt int64) {
	m.end(j, StateScheduled)
	j.runAt, j.at = runAt, runAt
}

func (m *model) lapse(j *modelJob, runAt func(*modelJob, time.Duration) int64) {
	if j.oldEpoch {
		m.release(j)
		return
	}
	timedOut := m.lease() >= j.started+j.timeout
	if timedOut {
		j.failures++
	} else {
		j.crashes++
	}
	out := j.failures+j.crashes >= j.attempts
	switch {
	case j.cancel:
		m.end(j, StateCancelled)
	case timedOut:
		j.lastError = "timeout after " + millis(j.timeout).String()
		if out {
			m.end(j, StateDead)
		} else {
			m.later(j, runAt(j, DefaultBackoff().Delay(j.failures)))
		}
	case j.crashes >= 3:
		j.lastError = fmt.Sprintf("crash loop: the lease expired in %d runs", j.crashes)
		m.end(j, StateDead)
	default:
		j.lastError = "lease expired"
		m.end(j, StateQueued)
		if out {
			m.end(j, StateDead)
		}
	}
}

func (m *model) release(j *modelJob) {
	j.interruptions++
	m.end(j, StateQueued)
	if j.cancel {
		m.end(j, StateCancelled)
	}
}

// holds reports whether a key stands for its job still.
func (m *model) holds(k modelKey) bool {
	j := m.jobs[k.job]
	switch {
	case j == nil || j.state == StateCancelled || j.state == StateDead && j.archived:
		return false
	case j.state == StateDone:
		return m.mono < m.paused || j.at > m.wall-KeyLife.Milliseconds()
	}
	return true
}

// enqueue says what the queue must answer to specs: an error, or for each its
// duplicate or 0 for a new job.
func (m *model) enqueue(specs []Spec) ([]int64, error) {
	owners, offered, fresh := make([]int64, len(specs)), map[string]modelKey{}, map[string]int64{}
	for i, s := range specs {
		if s.IdempotencyKey == "" {
			continue
		}
		name, body := s.Queue+"/"+s.IdempotencyKey, bodyOf(s)
		k, here := offered[name]
		if !here {
			if k, here = m.keys[name]; !here || !m.holds(k) {
				offered[name] = modelKey{int64(-i - 1), body} // the i-th of this request
				continue
			}
		}
		if owners[i] = k.job; k.body != body {
			return nil, ErrIdempotencyConflict
		}
	}
	for i, s := range specs {
		q := m.queues[s.Queue]
		if owners[i] != 0 || q == nil || q.depth == 0 {
			continue
		}
		fresh[s.Queue]++
		if m.count(s.Queue, StateScheduled, StateQueued)+fresh[s.Queue] > q.depth {
			return nil, ErrQueueFull
		}
	}
	return owners, nil
}

func bodyOf(s Spec) string {
	s.IdempotencyKey, s.Delay = "", 0
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// add puts in a job that the queue gave an id.
func (m *model) add(s Spec, e Enqueued) {
	j := &modelJob{
		id: e.ID, queue: s.Queue, typ: s.Type, payload: string(s.Payload), state: StateQueued, priority: s.Priority, attempts: cmp.Or(s.MaxAttempts, DefaultMaxAttempts),
		runAt: m.wall + s.Delay.Milliseconds(), timeout: cmp.Or(s.Timeout, DefaultTimeout).Milliseconds(), expires: toMS(s.ExpiresAt),
	}
	if s.Delay > 0 {
		j.state, j.at = StateScheduled, j.runAt
	}
	m.jobs[j.id] = j
	if m.queues[s.Queue] == nil {
		m.queues[s.Queue] = &modelQueue{}
	}
	if s.IdempotencyKey != "" {
		m.keys[s.Queue+"/"+s.IdempotencyKey] = modelKey{j.id, bodyOf(s)}
	}
}

// claim returns the jobs that a claim must get, and makes them run.
func (m *model) claim(req ClaimRequest) (got []*modelJob) {
	for _, name := range m.turns.order(req.Queues) {
		if q := m.queues[name]; q == nil || q.paused {
			continue
		}
		ready := m.sorted(func(j *modelJob) bool { return j.queue == name && j.state == StateQueued })
		slices.SortStableFunc(ready, func(a, b *modelJob) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.runAt, b.runAt))
		})
		for _, j := range ready {
			if len(got) == req.Max {
				break
			}
			if j.expires != 0 && j.expires <= m.wall {
				m.expire(j)
				continue
			}
			j.state, j.run, j.started, j.worker = StateRunning, j.run+1, m.lease(), req.Worker
			j.at = m.lease() + min(cmp.Or(req.Lease, DefaultLease).Milliseconds(), j.timeout)
			got = append(got, j)
		}
	}
	return got
}

// fail ends a run badly. runAt is what the queue said, checked by the caller.
func (m *model) fail(j *modelJob, f Fail, runAt int64) {
	j.failures++
	j.lastError = f.Error
	switch {
	case j.cancel:
		m.end(j, StateCancelled)
	case f.Fatal || j.failures+j.crashes >= j.attempts:
		m.end(j, StateDead)
	case f.RetryIn != nil && *f.RetryIn == 0:
		m.end(j, StateQueued)
	default:
		m.later(j, runAt)
	}
}

func (m *model) snooze(j *modelJob, delay time.Duration) {
	switch {
	case j.cancel:
		m.end(j, StateCancelled)
	case delay == 0:
		m.end(j, StateQueued)
	default:
		m.later(j, m.wall+delay.Milliseconds())
	}
}

func (m *model) retry(j *modelJob) {
	m.end(j, StateQueued)
	j.runAt, j.expires, j.failures, j.crashes, j.cancel, j.archived = m.wall, 0, 0, 0, false, false
}

// restart is what Open does to runs, with a clock that begins at the wall.
func (m *model) restart(c *fakeClock, committedAt, until int64, newEpoch bool) {
	m.read(c)
	m.turns, m.shift, m.paused = &turns{}, m.wall-m.mono, m.mono+min(max(until-m.wall, 0), stepPause)
	if gap := m.wall - committedAt; committedAt > 0 && (gap > stepPause || gap < -maxDrift) {
		m.paused = m.mono + stepPause
	}
	for _, j := range m.jobs {
		if j.state != StateRunning {
			continue
		}
		j.oldEpoch = j.oldEpoch || newEpoch
		if back := committedAt - m.wall; back > 1000 {
			j.at, j.started = j.at-back, j.started-back
		}
		j.at = min(j.at, m.lease()+MaxLease.Milliseconds())
		if j.at <= m.lease() && !j.graced && !j.oldEpoch {
			j.at, j.graced = m.lease()+bootGrace.Milliseconds(), true
		}
	}
}
