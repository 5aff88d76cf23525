package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast/node"
	"holdfast/node/client"
)

// The exit codes of every command. Those of serve are node.ExitCode's, which
// agree.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnreachable = 5
)

// usageError is a command line that cannot be run as it is.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// notReadyError is a node that answers, but does not serve.
type notReadyError struct{ reasons []string }

func (e *notReadyError) Error() string {
	if len(e.reasons) == 0 {
		return "the node is not ready; try again soon"
	}
	return "the node is not ready: " + strings.Join(e.reasons, "; ")
}

// nodeError is how node.Run ended, which knows its own exit codes.
type nodeError struct{ err error }

func (e *nodeError) Error() string { return e.err.Error() }
func (e *nodeError) Unwrap() error { return e.err }

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[*nodeError](err); ok {
		return node.ExitCode(e.err)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*notReadyError](err); ok || client.Temporary(err) {
		return exitUnreachable
	}
	switch {
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, client.ErrLeaseLost), errors.Is(err, client.ErrIdempotencyConflict), errors.Is(err, client.ErrWrongState):
		return exitConflict
	case errors.Is(err, &client.Error{Code: client.CodeInvalid}):
		return exitUsage // the node found the mistake in the arguments, not we
	}
	return exitFailed
}

// errorText is what a person reads: what happened, and what to do where that
// is not plain. Errors of several items are a line each.
func errorText(err error) string {
	if many, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		var lines []string
		for _, e := range many.Unwrap() {
			lines = append(lines, errorText(e))
		}
		return strings.Join(lines, "\n")
	}
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	_, unreachable := errors.AsType[*client.UnreachableError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case unreachable:
		return text + `; is the node running? start it with "holdfast serve", or name it with --url`
	case errors.Is(err, client.ErrLeaseLost):
		return text + "; claim the job again"
	case errors.Is(err, client.ErrIdempotencyConflict):
		return text + "; choose another --key, or send the same job"
	}
	return text
}
