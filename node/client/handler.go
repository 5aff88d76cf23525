package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Handler runs a job. Its result becomes JSON, a nil one none; its error makes
// the job fail, see [Fatal] and [Later], or puts it off, see [Snooze]. It may
// report how it gets on, see [Claimed.Progress].
//
// The context ends with the job's timeout, and earlier when the run is not
// wanted any more; context.Cause tells which: [ErrLeaseLost], [ErrCancelled],
// [ErrTimeout] or [ErrStopped].
type Handler func(ctx context.Context, job Claimed) (result any, err error)

// Why the context of a handler ended, besides [ErrLeaseLost].
var (
	// ErrCancelled is the cause when somebody cancelled the job.
	ErrCancelled = errors.New("the job was cancelled")
	// ErrTimeout is the cause when the run took longer than the job allows.
	ErrTimeout = errors.New("the run took longer than the job's timeout")
	// ErrStopped is the cause when the worker stops and its grace is over.
	ErrStopped = errors.New("the worker stops")
)

// timeoutError is ErrTimeout with the timeout.
type timeoutError struct{ timeout time.Duration }

func (e *timeoutError) Error() string        { return fmt.Sprintf("%v (%s)", ErrTimeout, e.timeout) }
func (e *timeoutError) Is(target error) bool { return target == ErrTimeout }

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks a handler's error as one that no further attempt can mend: the
// job is dead at once.
func Fatal(err error) error { return &fatalError{err} }

type laterError struct {
	in  time.Duration
	err error
}

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

// Later makes a handler's error ask for the next attempt in d, in the place of
// the job's back-off. It costs an attempt like any failure.
func Later(d time.Duration, err error) error { return &laterError{d, err} }

type snoozeError struct{ in time.Duration }

func (e *snoozeError) Error() string { return "put off for " + e.in.String() }

// Snooze makes a handler's job come back in d as if it had not run: it costs no
// attempt and is no failure. A handler returns it when it finds that the time
// has not come.
func Snooze(d time.Duration) error { return &snoozeError{d} }

// Progress reports how the run gets on, which others see as the job's progress.
// The value becomes JSON of up to [MaxProgress] bytes. It may be called often:
// the latest value goes to the node about once a second, and not at all when
// the handler returns before. Outside a [Worker] it does nothing.
func (c Claimed) Progress(v any) error {
	text, err := encode(v)
	switch {
	case err != nil:
		return fmt.Errorf("progress: %w", err)
	case len(text) > MaxProgress:
		return fmt.Errorf("the progress is %d bytes; the limit is %d", len(text), MaxProgress)
	case Nesting(text) > MaxNesting:
		return fmt.Errorf("the progress is nested more than %d levels deep", MaxNesting)
	}
	if c.progress != nil {
		c.progress(text)
	}
	return nil
}

// encode returns v as JSON, with its text as it is.
func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// handle calls a handler and returns its result as JSON. A panic is a failure.
func handle(ctx context.Context, h Handler, job Claimed) (result json.RawMessage, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			return
		}
		err = errors.New("the handler ended its goroutine")
	}()
	value, err := h(ctx, job)
	returned = true
	if err != nil || value == nil {
		return nil, err
	}
	result, err = encode(value)
	switch {
	case err != nil:
		return nil, fmt.Errorf("result: %w", err)
	case len(result) > MaxResult:
		return nil, fmt.Errorf("the result is %d bytes; the limit is %d", len(result), MaxResult)
	case Nesting(result) > MaxNesting:
		return nil, fmt.Errorf("the result is nested more than %d levels deep", MaxNesting)
	}
	return result, nil
}
