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
// the job fail, see [Fatal] and [Later].
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
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // the result is kept as the handler wrote it
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	result = bytes.TrimSpace(buf.Bytes())
	if len(result) > MaxResult {
		return nil, fmt.Errorf("the result is %d bytes; the limit is %d", len(result), MaxResult)
	}
	return result, nil
}
