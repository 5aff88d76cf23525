package queue

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// State is where a job stands. The numbers are those of the column jobs.state
// and never change; they start at 2 so that every row keeps its length when
// its state changes.
type State int

// The states of a job. See the package documentation for how a job moves
// between them.
const (
	StateBlocked   State = iota + 2 // waits for other jobs; kept free, nothing produces it yet
	StateScheduled                  // waits for its run_at: delayed, or between retries
	StateQueued                     // may be claimed now
	StateRunning                    // held by a worker under a lease
	StateDone                       // acknowledged by its worker
	StateDead                       // out of attempts; waits for a person
	StateCancelled                  // will not run
)

var stateNames = [...]string{
	StateBlocked: "blocked", StateScheduled: "scheduled", StateQueued: "queued", StateRunning: "running",
	StateDone: "done", StateDead: "dead", StateCancelled: "cancelled",
}

// String returns the state's name on the wire, such as "queued".
func (s State) String() string {
	if s < StateBlocked || s > StateCancelled {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// Final reports whether nothing but a person moves a job out of s.
func (s State) Final() bool { return s >= StateDone }

// ParseState is the inverse of [State.String].
func ParseState(name string) (State, error) {
	for s := StateBlocked; s <= StateCancelled; s++ {
		if stateNames[s] == name {
			return s, nil
		}
	}
	return 0, &SpecError{Field: "state", Reason: fmt.Sprintf("%q is not a state; use one of %s", name, strings.Join(stateNames[StateBlocked:], ", "))}
}

// Seq names a commit: the epoch of the primary that made it and the number of
// the commit round. Rounds are numbered from 1 and never fall, also over a
// restart.
type Seq struct {
	Epoch int64
	N     int64
}

// String returns "epoch.n", the form of the header Holdfast-Seq.
func (s Seq) String() string {
	return strconv.FormatInt(s.Epoch, 10) + "." + strconv.FormatInt(s.N, 10)
}

// Spec is a job as a producer hands it in. Only Queue is required.
type Spec struct {
	Queue          string            // 1 to 128 of letters, digits and . _ : -
	Type           string            // what the worker dispatches on; empty means DefaultType
	Payload        json.RawMessage   // any JSON text up to MaxPayload bytes; empty means null
	Priority       int               // higher first, MinPriority to MaxPriority
	RunAt          time.Time         // not before; zero means now. Not together with Delay
	Delay          time.Duration     // not before now + Delay by the node's clock
	MaxAttempts    int               // 0: the queue's setting
	Timeout        time.Duration     // bounds one run; 0: the queue's setting
	Backoff        *Backoff          // nil: the queue's setting
	IdempotencyKey string            // up to MaxKey bytes; empty means none
	Tags           map[string]string // up to MaxTags short strings
	ExpiresAt      time.Time         // never claimed after it; zero means never
	Traceparent    string            // of W3C Trace Context, handed on as it is; up to MaxTraceparent bytes
}

// Enqueued is the answer to one [Spec].
type Enqueued struct {
	ID        int64
	State     State // StateQueued, StateScheduled, or where the job of a duplicate stands now
	Duplicate bool  // the idempotency key named a job that is already there
	RunAt     time.Time
	CreatedAt time.Time
}

// ClaimRequest asks for jobs. Acks and Fails are settled first, in the same
// commit, and stand whether or not a job is found.
type ClaimRequest struct {
	Queues []string      // in this order of preference; 1 to MaxQueuesInClaim
	Max    int           // at most so many jobs, 1 to MaxClaim; 0 means 1
	Wait   time.Duration // how long to wait for a first job, up to MaxWait
	Lease  time.Duration // how long a claim lives without an extend; 0: the queue's setting
	Worker string        // unique to the process, by convention host:pid:random
	Acks   []Ack
	Fails  []Fail
}

// Claimed is a job in the hands of a worker.
type Claimed struct {
	ID          int64
	Queue       string
	Type        string
	Payload     json.RawMessage
	Priority    int
	Run         int64 // counts the job's claims; never falls
	Attempt     int   // failures + crashes + 1
	MaxAttempts int
	Timeout     time.Duration
	Tags        map[string]string
	Traceparent string
	RunAt       time.Time
	CreatedAt   time.Time
	Lease       string // the token that Ack, Fail, Release, Snooze and Extend need
	LeaseUntil  time.Time
}

// Claims is the answer to a [ClaimRequest]. Acks and Fails are in the order of
// the request's.
type Claims struct {
	Jobs  []Claimed
	Acks  []Result
	Fails []Result
}

// Ack says that a run ended well.
type Ack struct {
	Lease  string
	Result json.RawMessage // any JSON text up to MaxResult bytes; empty means none
}

// Fail says that a run ended badly.
type Fail struct {
	Lease   string
	Error   string         // kept up to MaxError bytes
	RetryIn *time.Duration // when to try again, up to MaxDelay; nil: by the job's back-off
	Fatal   bool           // no further attempt: dead
}

// Snooze ends a run without a verdict: the job comes back after Delay, and the
// run costs no attempt.
type Snooze struct {
	Lease string
	Delay time.Duration // up to MaxDelay
}

// Extend prolongs a lease to now + For, at most to the end of the run's
// timeout.
type Extend struct {
	Lease    string
	For      time.Duration   // 0: the queue's lease setting
	Progress json.RawMessage // any JSON text up to MaxProgress bytes; empty leaves it as it is
}

// Result is what became of one item of a batch.
type Result struct {
	ID         int64     // the job that the token names; 0 when it names none
	Queue      string    // the job's, unless Err is set
	Err        error     // ErrLeaseLost, a *SpecError, or nil
	State      State     // after an Ack, Fail, Release or Snooze
	RunAt      time.Time // after a Fail that will be retried, and a Snooze
	LeaseUntil time.Time // after an Extend
	Cancel     bool      // after an Extend: the job's cancellation was asked for
}

// Job is a job as it stands in the file.
type Job struct {
	ID              int64
	Queue           string
	Type            string
	State           State
	Priority        int
	Payload         json.RawMessage // nil in lists unless asked for
	RunAt           time.Time
	Run             int64
	Failures        int
	Crashes         int
	Interruptions   int
	MaxAttempts     int
	Timeout         time.Duration
	Backoff         Backoff
	Worker          string // of the last run; empty before the first
	StartedAt       time.Time
	LeaseUntil      time.Time // while running
	CancelRequested bool
	LastError       string
	ErrorFP         string // 16 hexadecimal digits, equal for errors of one kind; empty without an error
	Result          json.RawMessage
	Progress        json.RawMessage
	Tags            map[string]string
	Traceparent     string
	ExpiresAt       time.Time
	CreatedAt       time.Time
	FinishedAt      time.Time
	ArchivedAt      time.Time
	Runs            []Run // runs that did not end well, oldest first; only from [Queue.Job]
}

// Attempt is the number of the attempt that runs or comes next.
func (j *Job) Attempt() int { return j.Failures + j.Crashes + 1 }

// Run is one run that did not end well.
type Run struct {
	Run       int64
	StartedAt time.Time
	EndedAt   time.Time
	Outcome   Outcome
	Worker    string
	Error     string
}

// Outcome is how a run ended that did not end well.
type Outcome int

// The outcomes of a run. The numbers are those of the column job_runs.outcome.
const (
	OutcomeFailed      Outcome = iota + 2 // the worker reported a failure
	OutcomeTimeout                        // the run passed the job's timeout
	OutcomeCrashed                        // the lease ended without a word from the worker
	OutcomeInterrupted                    // the worker, or a new epoch, gave the job back
	OutcomeCancelled                      // cancelled while it ran
)

var outcomeNames = [...]string{
	OutcomeFailed: "failed", OutcomeTimeout: "timeout", OutcomeCrashed: "crashed",
	OutcomeInterrupted: "interrupted", OutcomeCancelled: "cancelled",
}

// String returns the outcome's name on the wire.
func (o Outcome) String() string {
	if o < OutcomeFailed || o > OutcomeCancelled {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

// Filter selects jobs for [Queue.Jobs], and dead ones for [Queue.RetryDead]
// and [Queue.ArchiveDead].
type Filter struct {
	Queue          string // empty: every queue
	State          State  // 0: every state
	Type           string
	Tag            string    // "name" or "name:value"
	ErrorFP        string    // as in Job.ErrorFP
	FinishedSince  time.Time // jobs in a final state alone: not before; zero: any time
	FinishedBefore time.Time // likewise: before
	Archived       bool      // archived dead jobs too
	After          string    // Page.Next of the page before
	Limit          int       // 1 to MaxPage; 0 means 100
	WithPayload    bool

	// Allow, unless nil, says which queues' jobs may be seen.
	Allow func(queue string) bool
}

// Page is one page of a list.
type Page struct {
	Jobs []Job
	Next string // After of the next page; empty at the end. A page may be short, even empty, before the end.
}

// Counts are the numbers of a queue's jobs by state. Dead leaves archived jobs
// out.
type Counts struct {
	Blocked, Scheduled, Queued, Running, Done, Dead, Cancelled int64
}

// Info is a queue with its settings, its counts and what a person wants to
// know first.
type Info struct {
	Name        string
	Paused      bool
	Settings    Settings
	Counts      Counts
	OldestAt    time.Time // run_at of the queued job that has been due for the longest
	LastError   string
	LastErrorAt time.Time
}
