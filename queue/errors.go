package queue

import (
	"errors"
	"fmt"
)

// Errors on which a caller branches.
var (
	// ErrNotFound is returned when no job has the id.
	ErrNotFound = errors.New("no such job")
	// ErrNoQueue is returned, as a *NoQueueError, when no queue has the name.
	ErrNoQueue = errors.New("no such queue: it comes into being with its first job")
	// ErrLeaseLost is returned when a lease token does not name the job's
	// present run: the lease ended, the job was finished, or the token is not
	// one of ours. The call left no trace.
	ErrLeaseLost = errors.New("the lease is lost: it ended, or the job was finished or given to another worker")
	// ErrIdempotencyConflict is returned when the idempotency key names a live
	// job that was made from another spec.
	ErrIdempotencyConflict = errors.New("the idempotency key belongs to a job with another body")
	// ErrWrongState is returned when a job is not in a state that the call
	// allows, as for the retry of a job that is not dead.
	ErrWrongState = errors.New("the job's state does not allow it")
	// ErrQueueFull is returned by Enqueue when the jobs would take a queue over
	// its depth limit.
	ErrQueueFull = errors.New("the queue has as many waiting jobs as its settings allow")
	// ErrNoToken is returned when no access token has the id.
	ErrNoToken = errors.New("no such access token")
	// ErrTokenName is returned when a good access token has the name.
	ErrTokenName = errors.New("there is an access token of this name; revoke it first, or choose another name")
	// ErrTooManyTokens is returned when there are MaxAccessTokens.
	ErrTooManyTokens = errors.New("there are as many access tokens as there may be; revoke some first")
	// ErrTxTimeout is returned by Tx, and inside it, when its function took
	// longer than MaxTx. Nothing of it took effect.
	ErrTxTimeout = errors.New("the transaction took too long and was rolled back")
	// ErrDiskFull is returned by Enqueue while the disk has less free space
	// than the watermark. Claims and acks go on.
	ErrDiskFull = errors.New("the disk is almost full: new jobs are refused until space is free; claims and acks go on")
	// ErrUnknownOutcome is returned when a commit failed in a way that leaves
	// open whether it took effect. An idempotency key makes a retry safe.
	ErrUnknownOutcome = errors.New("the commit failed and its outcome is unknown")
	// ErrClosed is returned after Close, and by calls that Close cut short
	// before they had an effect.
	ErrClosed = errors.New("the queue is closed")
	// ErrNewerSchema is returned by Open and Inspect when the file was written
	// by a newer version.
	ErrNewerSchema = errors.New("the database was written by a newer version of holdfast")
	// ErrForeignFile is returned by Open and Inspect when the file is a SQLite
	// database of another program, or no database, and by Open when it belongs
	// to another lineage than Options.Lineage.
	ErrForeignFile = errors.New("the file is not a holdfast database")
	// ErrEmptyFile is returned by Inspect when the file holds no database yet:
	// Open would make a new one of it.
	ErrEmptyFile = errors.New("the file is empty")
	// ErrNetworkDisk is returned by Open when the file is on a network file
	// system, whose locks SQLite cannot trust.
	ErrNetworkDisk = errors.New("the database must be on a local disk")
)

// NoQueueError is an [ErrNoQueue] that says which queue is not there.
type NoQueueError struct{ Queue string }

// Error names the queue.
func (e *NoQueueError) Error() string {
	return fmt.Sprintf("no such queue: %q comes into being with its first job", clip(e.Queue, MaxName))
}

// Is makes it an ErrNoQueue.
func (e *NoQueueError) Is(target error) bool { return target == ErrNoQueue }

// SpecError says which field of a request is wrong and why.
type SpecError struct {
	Field  string // as on the wire, such as "jobs[3].priority"
	Reason string
}

// Error returns the field and the reason.
func (e *SpecError) Error() string { return e.Field + ": " + e.Reason }

// TooLargeError is returned when a payload, a result or another bounded part
// of a request is over its limit.
type TooLargeError struct {
	Field string
	Limit int // bytes
	Size  int // bytes
}

// Error names the part, its size and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s is %d bytes; the limit is %d", e.Field, e.Size, e.Limit)
}
