package queue

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The bits of the column jobs.flags.
const (
	flagCancel       = 2
	flagPayloadAside = 4
	flagHasKey       = 8
	flagArchived     = 16
	flagOldEpoch     = 32 // running since an epoch before: no token of the run is valid any more
	flagGraced       = 64 // the run's lease was prolonged after a restart, once

	runFlags = flagOldEpoch | flagGraced // end with the run
)

const (
	runsKept      = 100  // of a job; the oldest go first
	queueErrBytes = 1024 // of the error that a queue shows as its last
)

// heldJob is what the end of a run needs to know of its job.
type heldJob struct {
	id, run, startedAt, worker, flags int64
	runAt                             int64 // set with StateScheduled
	expires                           sql.NullInt64
	queue                             *queueState
	state                             State
	failures, crashes, interruptions  int
	spec                              []byte
}

func (h *heldJob) policy() policy { return policyOf(h.spec, &h.queue.settings) }

// timeoutAt is when the run has to end, by the lease clock.
func (h *heldJob) timeoutAt() int64 { return h.startedAt + h.policy().Timeout.Milliseconds() }

func (r *round) scanHeld(scan func(...any) error) (*heldJob, error) {
	h := &heldJob{}
	var qid int64
	if err := scan(&h.id, &qid, &h.run, &h.state, &h.failures, &h.crashes, &h.interruptions, &h.startedAt, &h.worker, &h.flags, &h.expires,
		&h.spec); err != nil {
		return nil, err
	}
	if h.queue = r.w.names.byID[qid]; h.queue == nil {
		return nil, fmt.Errorf("job %d is of queue %d, which is not there", h.id, qid)
	}
	return h, nil
}

// held reads a job. It returns ErrNotFound where there is none.
func (r *round) held(id int64) (*heldJob, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	h, err := r.scanHeld(r.w.st.held.QueryRow(id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return h, err
}

// heldAll reads the jobs that a list statement returns.
func (r *round) heldAll(stmt *sql.Stmt, args ...any) (jobs []*heldJob, err error) {
	err = scanAll(stmt, args, func(rows *sql.Rows) error {
		h, err := r.scanHeld(rows.Scan)
		jobs = append(jobs, h)
		return err
	})
	if err == nil && len(jobs) > 0 {
		err = r.begin()
	}
	return jobs, err
}

// fail ends a run that its worker reported as failed.
func (r *round) fail(h *heldJob, f *finish) error {
	h.failures++
	r.of(h.queue).failed++
	p := h.policy()
	switch {
	case h.flags&flagCancel != 0:
		return r.end(h, StateCancelled, OutcomeCancelled, f.why)
	case f.fatal || h.failures+h.crashes >= p.MaxAttempts:
		return r.end(h, StateDead, OutcomeFailed, f.why)
	}
	in := jitter(p.Backoff.Delay(h.failures))
	if f.delay != nil {
		in = *f.delay
	}
	return r.end(h, r.at(h, in), OutcomeFailed, f.why)
}

// at sets when a job comes back, and returns the state in which it waits.
func (r *round) at(h *heldJob, in time.Duration) State {
	if in.Milliseconds() <= 0 {
		return StateQueued
	}
	h.runAt = r.now.wall + in.Milliseconds()
	r.next.scheduled = min(r.next.scheduled, h.runAt)
	return StateScheduled
}

// interrupt gives a job back as if its run had not been.
func (r *round) interrupt(h *heldJob, why string) error {
	h.interruptions++
	if h.flags&flagCancel != 0 {
		return r.end(h, StateCancelled, OutcomeCancelled, reason{})
	}
	return r.end(h, StateQueued, OutcomeInterrupted, reason{text: why})
}

// snooze puts a job off. It is no bad end of its run, so it is not recorded:
// a job may be put off every minute.
func (r *round) snooze(h *heldJob, in time.Duration) error {
	if h.flags&flagCancel != 0 {
		return r.end(h, StateCancelled, OutcomeCancelled, reason{})
	}
	return r.settle(h, r.at(h, in), reason{})
}

// lapse ends a run whose lease ended without a word from its worker.
func (r *round) lapse(h *heldJob) error {
	if h.flags&flagOldEpoch != 0 {
		return r.interrupt(h, "its primary was replaced")
	}
	p := h.policy()
	timedOut := r.now.lease >= h.timeoutAt()
	if timedOut {
		h.failures++
	} else {
		h.crashes++
	}
	r.of(h.queue).failed++
	out := h.failures+h.crashes >= p.MaxAttempts
	why := because("lease expired")
	if timedOut {
		why = because("timeout after " + p.Timeout.String())
	}
	switch {
	case h.flags&flagCancel != 0:
		return r.end(h, StateCancelled, OutcomeCancelled, reason{})
	case timedOut && out:
		return r.end(h, StateDead, OutcomeTimeout, why)
	case timedOut:
		return r.end(h, r.at(h, jitter(p.Backoff.Delay(h.failures))), OutcomeTimeout, why)
	case h.crashes >= crashLoop:
		return r.end(h, StateDead, OutcomeCrashed, because(fmt.Sprintf("crash loop: the lease expired in %d runs", h.crashes)))
	case out:
		return r.end(h, StateDead, OutcomeCrashed, why)
	}
	return r.end(h, StateQueued, OutcomeCrashed, why)
}

// end moves a running job to where its run leaves it, and records the run.
func (r *round) end(h *heldJob, to State, how Outcome, why reason) error {
	if _, err := r.w.st.insertRun.Exec(h.id, h.run, h.startedAt, r.now.lease, how, h.worker, why.text); err != nil {
		return err
	}
	if h.run > runsKept {
		if _, err := r.w.st.trimRuns.Exec(h.id, h.run-runsKept); err != nil {
			return err
		}
	}
	if how == OutcomeInterrupted { // is no error of the job
		why = reason{}
	}
	return r.settle(h, to, why)
}

// settle writes a job's new state and, if there is one, its last error.
func (r *round) settle(h *heldJob, to State, why reason) error {
	at, runAt, fp := none, any(nil), any(nil)
	switch {
	case to == StateScheduled:
		at, runAt = h.runAt, h.runAt
	case to.Final():
		at = r.now.wall
		r.ended(h.id)
	}
	if h.expires.Valid && !to.Final() {
		r.next.expiry = min(r.next.expiry, h.expires.Int64)
	}
	d := r.of(h.queue)
	if why.text != "" {
		fp = why.fp
		if _, err := r.w.st.setErrors.exec(nil, []any{h.id, why.text}, nil); err != nil {
			return err
		}
		d.lastError = clip(why.text, queueErrBytes)
	}
	switch {
	case to == StateDead:
		d.dead++
	case to == StateCancelled:
		d.cancelled++
	}
	if h.state == StateRunning {
		d.run.add(r.now.lease - h.startedAt)
	}
	h.flags &^= runFlags | flagArchived
	if _, err := r.w.st.settle.Exec(to, at, runAt, h.failures, h.crashes, h.interruptions, h.flags, fp, h.id); err != nil {
		return err
	}
	r.moved(h.queue, h.id, h.state, to)
	h.state = to
	return nil
}

// clip cuts s to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
