package client

import (
	"errors"
	"fmt"
	"net/http"
)

// Code is the machine-readable kind of an error answer.
type Code string

// The codes of the API.
const (
	CodeInvalid               Code = "invalid"                // 400: the request is wrong; the message says where
	CodeReplicatedUnavailable Code = "replicated_unavailable" // 400: this node cannot give durability=replicated
	CodeUnauthorized          Code = "unauthorized"           // 401: an access token is missing, unknown, revoked or expired
	CodeForbidden             Code = "forbidden"              // 403: the token lacks a scope or the queue; or a browser's request from elsewhere
	CodeNotFound              Code = "not_found"              // 404: no such job, queue or path
	CodeMethodNotAllowed      Code = "method_not_allowed"     // 405: the path exists, the method does not
	CodeLeaseLost             Code = "lease_lost"             // 409: the token does not name the job's present run
	CodeIdempotencyConflict   Code = "idempotency_conflict"   // 409: the key belongs to a job with another body
	CodeWrongState            Code = "wrong_state"            // 409: the job's state does not allow it
	CodeExists                Code = "exists"                 // 409: there is one of this name
	CodeTooLarge              Code = "too_large"              // 413: a payload, result or body is over its limit
	CodeQueueFull             Code = "queue_full"             // 429: the queue has as many waiting jobs as its max_depth
	CodeRateLimited           Code = "rate_limited"           // 429: too many wrong access tokens from one address
	CodeInternal              Code = "internal"               // 500: a fault of the node; its log says more
	CodeUnknownOutcome        Code = "unknown_outcome"        // 503: it may or may not have taken effect; retry with the same key
	CodeUnavailable           Code = "unavailable"            // 503: the node is starting or stopping
	CodeNotPrimary            Code = "not_primary"            // 503: another node is the primary; the header Holdfast-Primary says where
	CodeReplicationBehind     Code = "replication_behind"     // 503: too much is on the node's own disk only
	CodeStale                 Code = "stale"                  // 503: what the edge has is older than the request allows
	CodeDiskFull              Code = "disk_full"              // 507: no new jobs until space is free
	CodeTooSlow               Code = "too_slow"               // of the event stream alone: its reader fell too far behind
)

// Error is an error answer of the node.
type Error struct {
	Status  int // of the HTTP answer; 0 for an item of a batch
	Code    Code
	Message string
}

// Error returns the message and the code.
func (e *Error) Error() string {
	if e.Code == "" { // not of Holdfast, such as a proxy's
		return e.Message
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// Is reports whether target is the sentinel of e's code, so that
// errors.Is(err, client.ErrLeaseLost) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Message == "" && t.Code == e.Code
}

// Sentinels for errors.Is, one for each code on which a caller branches.
var (
	ErrUnauthorized        = &Error{Code: CodeUnauthorized}
	ErrForbidden           = &Error{Code: CodeForbidden}
	ErrNotFound            = &Error{Code: CodeNotFound}
	ErrLeaseLost           = &Error{Code: CodeLeaseLost}
	ErrIdempotencyConflict = &Error{Code: CodeIdempotencyConflict}
	ErrWrongState          = &Error{Code: CodeWrongState}
	ErrExists              = &Error{Code: CodeExists}
	ErrTooLarge            = &Error{Code: CodeTooLarge}
	ErrQueueFull           = &Error{Code: CodeQueueFull}
	ErrUnknownOutcome      = &Error{Code: CodeUnknownOutcome}
	ErrUnavailable         = &Error{Code: CodeUnavailable}
	ErrNotPrimary          = &Error{Code: CodeNotPrimary}
	ErrStale               = &Error{Code: CodeStale}
	ErrDiskFull            = &Error{Code: CodeDiskFull}
)

// Err returns why the item failed, as an *Error, or nil.
func (r Result) Err() error {
	switch {
	case r.Error != nil:
		return &Error{Code: r.Error.Code, Message: r.Error.Message}
	case !r.OK:
		return &Error{Code: CodeInternal, Message: "the node gave no reason"}
	}
	return nil
}

// UnreachableError is returned when the node gave no answer: it could not be
// reached, the connection broke, or the answer took too long. A write may or
// may not have taken effect.
type UnreachableError struct {
	URL string // of the node
	Err error
}

// Error says which node and why.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Temporary reports whether the same call may succeed later without a change:
// the node was not reached, is starting or stopping, or could not say what
// became of a write.
func Temporary(err error) bool {
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case CodeUnavailable, CodeUnknownOutcome, CodeNotPrimary, CodeReplicationBehind, CodeStale:
		return true
	}
	// A proxy in front of the node answers with one of these and no code of ours.
	return e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout
}

// refused reports whether err is an answer that will be the same each time.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case 0:
		return e.Code == CodeInvalid || e.Code == CodeNotFound || e.Code == CodeTooLarge
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}
