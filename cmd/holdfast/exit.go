package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/replicate"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnreachable = 5
	exitRefused     = 6
	exitInterrupted = 130 // 128 + SIGINT, as shells have it
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

// printedError is an error that the JSON on standard output tells already.
type printedError struct{ err error }

func (e *printedError) Error() string { return e.err.Error() }
func (e *printedError) Unwrap() error { return e.err }

// printed prints v, which tells of err too if there is one.
func printed(w io.Writer, v any, err error) error {
	if fault := printJSON(w, v); fault != nil {
		return errors.Join(err, fault)
	}
	if err != nil {
		return &printedError{err}
	}
	return nil
}

// kinds are the errors that have an exit code of their own, and the code that
// --json gives to those that are not the API's. The first that matches counts.
var kinds = []struct {
	is   func(error) bool
	exit int
	code client.Code
}{
	{isA[*usageError], exitUsage, client.CodeInvalid},
	{isA[*node.ConfigError], exitUsage, client.CodeInvalid},
	{isErr(node.ErrLocked), exitConflict, "locked"},
	{isErr(replicate.ErrHeld), exitConflict, "held"},
	{isErr(replicate.ErrRootLocked), exitConflict, "locked"},
	{isErr(replicate.ErrFenced), exitConflict, "fenced"},
	{isErr(replicate.ErrExists), exitConflict, "exists"},
	{isErr(node.ErrRefused), exitRefused, "refused"},
	{isErr(replicate.ErrNoLock), exitRefused, "refused"},
	{isErr(replicate.ErrDiverged), exitRefused, "refused"},
	{isErr(replicate.ErrForeign), exitRefused, "refused"},
	{isErr(replicate.ErrNewer), exitRefused, "refused"},
	{isA[*replicate.RemoteError], exitUnreachable, "bucket"},
	{isErr(context.Canceled), exitInterrupted, "interrupted"},
	{isA[*notReadyError], exitUnreachable, client.CodeUnavailable},
	{isA[*client.UnreachableError], exitUnreachable, "unreachable"},
	{client.Temporary, exitUnreachable, client.CodeUnavailable},
	{isErr(client.ErrUnauthorized), exitUnreachable, ""},
	{isErr(client.ErrNotFound), exitNotFound, ""},
	{isErr(client.ErrLeaseLost), exitConflict, ""},
	{isErr(client.ErrIdempotencyConflict), exitConflict, ""},
	{isErr(client.ErrWrongState), exitConflict, ""},
	{isErr(client.ErrExists), exitConflict, ""},
	// The node found the mistake in the arguments, not we.
	{isErr(&client.Error{Code: client.CodeInvalid}), exitUsage, ""},
	{isErr(client.ErrTooLarge), exitUsage, ""},
	{func(error) bool { return true }, exitFailed, "failed"},
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isErr(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	for _, kind := range kinds {
		if kind.is(err) {
			return kind.exit
		}
	}
	return exitFailed
}

// errorBody is err as the API would say it.
func errorBody(err error) client.ErrorBody {
	body := client.ErrorBody{Message: errorText(err)}
	if e, ok := errors.AsType[*client.Error](err); ok {
		body.Code = e.Code
	}
	for _, kind := range kinds {
		if body.Code == "" && kind.is(err) {
			body.Code = kind.code
		}
	}
	return body
}

// wantsJSON reports whether a command line, which may be a wrong one, asks for
// JSON.
func wantsJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "-json") || slices.Contains(args, "--json=true")
}

// errorText is what a person reads: what happened, and what to do where that
// is not plain. Errors of several items are a line each.
func errorText(err error) string {
	if e, ok := errors.AsType[*printedError](err); ok {
		err = e.err
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		var lines []string
		for _, e := range many.Unwrap() {
			lines = append(lines, errorText(e))
		}
		return strings.Join(lines, "\n")
	}
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case isA[*tls.CertificateVerificationError](err):
		return text + "; if that is the node's own certificate, trust it by --tls-ca FILE, and name the node as the certificate does"
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return strings.TrimSuffix(text, ".") + "; write https:// in --url"
	case isA[*noneAnswersError](err):
		return text + "; none of the nodes in --url is the primary just now: a standby takes over within seconds, so try again, an enqueue with the same --key"
	case isA[*client.UnreachableError](err):
		return text + `; is the node running? start it with "holdfast serve", or name it with --url`
	case errors.Is(err, replicate.ErrExists):
		return text + "; it was begun before: start its node by holdfast serve, with the same --config, or correct bucket and path"
	case errors.Is(err, client.ErrLeaseLost) && strings.Contains(text, "the lease is lost"): // a token that is none is not mended so
		return text + "; claim the job again"
	case errors.Is(err, client.ErrQueueFull):
		return text + "; try again later, or change that: holdfast queues set QUEUE --max-depth N"
	case errors.Is(err, client.ErrIdempotencyConflict):
		return text + "; choose another --key, or send the same job"
	}
	return text
}
