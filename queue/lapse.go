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
)

const (
	runsKept      = 100  // of a job; the oldest go first
	queueErrBytes = 1024 // of the error that a queue shows as its last
)

// heldJob is what the end of a run needs to know of its job.
type heldJob struct {
	id, run, startedAt, worker, flags int64
	runAt                             int64 // set with StateScheduled
	queue                             *queueState
	state                             State
	failures, crashes, interruptions  int
	spec                              []byte
}

func (r *round) scanHeld(scan func(...any) error) (*heldJob, error) {
	h := &heldJob{}
	var qid int64
	if err := scan(&h.id, &qid, &h.run, &h.state, &h.failures, &h.crashes, &h.interruptions, &h.startedAt, &h.worker, &h.flags, &h.spec); err != nil {
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
	message := f.message
	if message == "" {
		message = "the worker gave no reason"
	}
	h.failures++
	r.of(h.queue).failed++
	if h.flags&flagCancel != 0 {
		return r.end(h, StateCancelled, OutcomeCancelled, message)
	}
	p, err := policyOf(h.spec, &h.queue.settings)
	if err != nil {
		return err
	}
	if f.fatal || h.failures+h.crashes >= p.MaxAttempts {
		return r.end(h, StateDead, OutcomeFailed, message)
	}
	return r.later(h, f.retryIn, p, OutcomeFailed, message)
}

// later schedules the next attempt.
func (r *round) later(h *heldJob, in time.Duration, p policy, how Outcome, message string) error {
	if in < 0 {
		in = jitter(p.Backoff.Delay(h.failures))
	}
	h.runAt = r.now.wall + in.Milliseconds()
	if in == 0 {
		return r.end(h, StateQueued, how, message)
	}
	r.next.scheduled = min(r.next.scheduled, h.runAt)
	return r.end(h, StateScheduled, how, message)
}

// interrupt gives a job back as if its run had not been.
func (r *round) interrupt(h *heldJob, why string) error {
	h.interruptions++
	if h.flags&flagCancel != 0 {
		return r.end(h, StateCancelled, OutcomeCancelled, "")
	}
	return r.end(h, StateQueued, OutcomeInterrupted, why)
}

// lapse ends a run whose lease ended without a word from its worker.
func (r *round) lapse(h *heldJob) error {
	p, err := policyOf(h.spec, &h.queue.settings)
	if err != nil {
		return err
	}
	timedOut := r.now.lease >= h.startedAt+p.TimeoutMS
	if timedOut {
		h.failures++
	} else {
		h.crashes++
	}
	r.of(h.queue).failed++
	out := h.failures+h.crashes >= p.MaxAttempts
	switch {
	case h.flags&flagCancel != 0:
		return r.end(h, StateCancelled, OutcomeCancelled, "")
	case timedOut && out:
		return r.end(h, StateDead, OutcomeTimeout, "timeout after "+p.timeout().String())
	case timedOut:
		return r.later(h, -1, p, OutcomeTimeout, "timeout after "+p.timeout().String())
	case h.crashes >= crashLoop:
		return r.end(h, StateDead, OutcomeCrashed, fmt.Sprintf("crash loop: the lease expired in %d runs", h.crashes))
	case out:
		return r.end(h, StateDead, OutcomeCrashed, "lease expired")
	}
	return r.end(h, StateQueued, OutcomeCrashed, "lease expired")
}

// end moves a running job to where its run leaves it, and records the run.
func (r *round) end(h *heldJob, to State, how Outcome, message string) error {
	message = clip(message, MaxError)
	if _, err := r.w.st.insertRun.Exec(h.id, h.run, h.startedAt, r.now.lease, how, h.worker, message); err != nil {
		return err
	}
	if h.run > runsKept {
		if _, err := r.w.st.trimRuns.Exec(h.id, h.run-runsKept); err != nil {
			return err
		}
	}
	if how == OutcomeInterrupted {
		message = ""
	}
	return r.settle(h, to, message)
}

// settle writes a job's new state and, unless message is empty, its last error.
func (r *round) settle(h *heldJob, to State, message string) error {
	at, runAt, fp := none, any(nil), any(nil)
	switch {
	case to == StateScheduled:
		at, runAt = h.runAt, h.runAt
	case to.Final():
		at = r.now.wall
	}
	d := r.of(h.queue)
	if message != "" {
		fp = fingerprint(message)
		if _, err := r.w.st.setErrors.exec(nil, []any{h.id, message}, nil); err != nil {
			return err
		}
		d.lastError = clip(message, queueErrBytes)
	}
	if to == StateDead {
		d.dead++
	}
	if _, err := r.w.st.settle.Exec(to, at, runAt, h.failures, h.crashes, h.interruptions, h.flags, fp, h.id); err != nil {
		return err
	}
	r.move(h.queue, h.state, to, 1)
	h.state = to
	return nil
}

// clip cuts s to at most n bytes of valid UTF-8.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && size <= 1 && len(s) > 0 {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "�")
}
