package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"holdfast/node/client"
	"holdfast/queue"
)

// apiError is an error that a client may see.
type apiError struct {
	code    client.Code
	message string
}

func (e *apiError) Error() string { return e.message + " (" + string(e.code) + ")" }

// status is that of the code; the table is the API's.
func (e *apiError) status() int {
	switch e.code {
	case client.CodeInvalid, client.CodeReplicatedUnavailable:
		return http.StatusBadRequest
	case client.CodeUnauthorized:
		return http.StatusUnauthorized
	case client.CodeForbidden:
		return http.StatusForbidden
	case client.CodeNotFound:
		return http.StatusNotFound
	case client.CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case client.CodeLeaseLost, client.CodeIdempotencyConflict, client.CodeWrongState, client.CodeExists:
		return http.StatusConflict
	case client.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case client.CodeQueueFull, client.CodeRateLimited:
		return http.StatusTooManyRequests
	case client.CodeUnavailable, client.CodeUnknownOutcome, client.CodeNotPrimary, client.CodeReplicationBehind, client.CodeStale:
		return http.StatusServiceUnavailable
	case client.CodeDiskFull:
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

func invalid(format string, args ...any) error {
	return &apiError{code: client.CodeInvalid, message: fmt.Sprintf(format, args...)}
}

// errHungUp is returned by a handler when the client is gone: there is no one
// to answer.
var errHungUp = errors.New("the client hung up")

// errLost is returned by a handler whose work may be void.
var errLost = errors.New("this node is not the primary any more, or cannot be sure that it is")

// forClients are the errors of the queue whose text is meant for clients.
var forClients = []struct {
	err  error
	code client.Code
}{
	// First: after a commit of unknown outcome the queue closes, and says
	// of what comes later that it is closed because of that.
	{queue.ErrClosed, client.CodeUnavailable},
	{queue.ErrLeaseLost, client.CodeLeaseLost},
	{queue.ErrNotFound, client.CodeNotFound},
	{queue.ErrNoToken, client.CodeNotFound},
	{queue.ErrTokenName, client.CodeExists},
	{queue.ErrTooManyTokens, client.CodeWrongState},
	{queue.ErrIdempotencyConflict, client.CodeIdempotencyConflict},
	{queue.ErrWrongState, client.CodeWrongState},
	{queue.ErrQueueFull, client.CodeQueueFull},
	{queue.ErrDiskFull, client.CodeDiskFull},
	{queue.ErrUnknownOutcome, client.CodeUnknownOutcome},
}

// asAPIError is what a client may see of err, or nil if there is nothing.
func asAPIError(err error) *apiError {
	var (
		api      *apiError
		spec     *queue.SpecError
		tooLarge *queue.TooLargeError
		noQueue  *queue.NoQueueError
	)
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &noQueue):
		return &apiError{code: client.CodeNotFound, message: NoQueueText(noQueue.Queue, nil)}
	case errors.As(err, &spec):
		return &apiError{code: client.CodeInvalid, message: spec.Error()}
	case errors.As(err, &tooLarge):
		return &apiError{code: client.CodeTooLarge, message: tooLarge.Error()}
	}
	for _, known := range forClients {
		if errors.Is(err, known.err) {
			return &apiError{code: known.code, message: known.err.Error()}
		}
	}
	return nil
}

// public turns any error into what a client may see of it. Only what is meant
// for clients keeps its text; the rest is logged here and called internal.
func (a *API) public(r *http.Request, err error) *apiError {
	if e := asAPIError(err); e != nil {
		return e
	}
	if errors.Is(err, errLost) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return &apiError{code: client.CodeUnavailable, message: err.Error()}
		}
		return &apiError{code: client.CodeUnknownOutcome, message: err.Error() + ", and the request may or may not have taken effect"}
	}
	if r.Context().Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cutOff(r)
	}
	a.log.Error("request failed", "method", r.Method, "route", r.Pattern, "err", err)
	return &apiError{code: client.CodeInternal, message: "internal error; the node's log has the cause"}
}

// cutOff is for a request that ended before its work did: the client went
// away, and nobody reads the answer, or the work took too long.
func cutOff(r *http.Request) *apiError {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return &apiError{code: client.CodeUnavailable, message: "the read took too long and was cut off"}
	}
	return &apiError{code: client.CodeUnknownOutcome, message: "the request was cut off: it may or may not have taken effect"}
}

// renamed gives the field that err is about, if any, another name: the
// client's view of a request may be another than the queue's.
func renamed(err error, rename func(field string) string) error {
	var spec *queue.SpecError
	if errors.As(err, &spec) {
		return &queue.SpecError{Field: rename(spec.Field), Reason: spec.Reason}
	}
	var tooLarge *queue.TooLargeError
	if errors.As(err, &tooLarge) {
		return &queue.TooLargeError{Field: rename(tooLarge.Field), Limit: tooLarge.Limit, Size: tooLarge.Size}
	}
	return err
}

// body is the error on the wire.
func (e *apiError) body() client.ErrorBody {
	return client.ErrorBody{Code: e.code, Message: e.message}
}

// fail answers a request with err.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errHungUp) {
		return
	}
	e := a.public(r, err)
	if status := e.status(); status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		if w.Header().Get("Retry-After") == "" {
			w.Header().Set("Retry-After", retryAfter)
		}
	}
	if err := answer(w, e.status(), client.ErrorAnswer{Error: e.body()}); err != nil {
		a.log.Debug("error answer not delivered", "route", r.Pattern, "err", err)
	}
}
