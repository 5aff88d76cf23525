package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// ErrLogin is returned by a [Gate] when nobody is logged in and somebody has to
// be.
var ErrLogin = errors.New("a login is needed")

// Error is an error whose message a visitor may see. Of others they learn only
// that there was one.
type Error struct {
	Status  int // of HTTP
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Gate tells who is visiting.
type Gate interface {
	// Visitor returns who makes r. Errors: ErrLogin, *Error.
	Visitor(r *http.Request) (*Visitor, error)
	// Login checks an access token and returns the value of a cookie that
	// stands for it, and how long it does. Errors: *Error.
	Login(r *http.Request, token string) (session string, lasts time.Duration, err error)
}

// Visitor is who looks at a page.
type Visitor struct {
	Name     string // of the token; empty: none was needed
	Payloads bool   // may see payloads, results and progress
	Reader   Reader
	Editor   Editor // nil: may change nothing
	// ReadOnly says why Editor is nil, as the rest of "Read-only: …".
	ReadOnly string
	// Away says why there is nothing but Node to read; empty: there is.
	Away string
}

// Reader is what the pages show.
type Reader interface {
	// Node says how the node itself is. It answers at any time.
	Node(ctx context.Context) (Node, error)
	// Queues returns the queues that the visitor may see, by name.
	Queues(ctx context.Context) ([]Queue, error)
	// Minutes returns what a queue (empty: each) did since a time, oldest first.
	Minutes(ctx context.Context, queue string, since time.Time) ([]Minute, error)
	// Job returns a job with its runs.
	Job(ctx context.Context, id int64) (Job, error)
	// Jobs returns a page of a list, without payloads.
	Jobs(ctx context.Context, f Filter) (Page, error)
	// DeadGroups counts dead jobs by queue and kind of error, most first.
	DeadGroups(ctx context.Context, f Filter) (Groups, error)
	// Changed returns when something was committed after the position at, or
	// the node has nothing more to say. An empty at is that of now.
	Changed(ctx context.Context, at string) (string, error)
}

// Editor is what a visitor may do who may change something. Each change leaves
// an entry in the audit trail.
type Editor interface {
	// Retry makes a dead job claimable, with payload in the place of its own
	// unless it is empty.
	Retry(ctx context.Context, id int64, payload json.RawMessage) error
	Cancel(ctx context.Context, id int64) error
	Archive(ctx context.Context, id int64) error
	Delete(ctx context.Context, id int64) error
	// Pause keeps a queue's jobs from being claimed, or lets them again.
	Pause(ctx context.Context, queue string, paused bool) error
	// Bulk does one step of retrying or archiving the dead jobs that f selects,
	// and returns how many, and the After of the next step, empty at the end. A
	// dry run counts.
	Bulk(ctx context.Context, action BulkAction, f Filter, dryRun bool) (count int, next string, err error)
}

// BulkAction is what is done to many dead jobs.
type BulkAction string

// The bulk actions.
const (
	BulkRetry   BulkAction = "retry"
	BulkArchive BulkAction = "archive"
)

// Filter selects jobs. The zero value of a field selects any.
type Filter struct {
	Queue, State, Type, Error string
	Since, Before             time.Time // of the end of jobs in a final state
	After                     string    // Next of the page before
	Limit                     int
}

// Queue is a queue with its counts.
type Queue struct {
	Name                                              string
	Paused                                            bool
	Scheduled, Queued, Running, Done, Dead, Cancelled int64
	OldestAt                                          time.Time // of the queued job that has been due for the longest
	LastError                                         string
	LastErrorAt                                       time.Time
	Settings                                          []Fact
}

// Fact is a line of a table of facts.
type Fact struct {
	Name, Value string
	Own         bool // it differs from the default
}

// Minute is what a queue did in a minute.
type Minute struct {
	Queue                        string
	At                           time.Time
	Enqueued, Done, Failed, Dead int64
}

// Job is a job. Payload, Result and Progress are empty where the visitor may not
// see them.
type Job struct {
	ID                                      int64
	Queue, Type, State                      string
	Priority                                int
	Payload, Result, Progress               json.RawMessage
	Run                                     int64
	Attempt, MaxAttempts                    int
	Failures, Crashes, Interruptions        int
	Timeout                                 time.Duration
	Worker                                  string
	CancelRequested                         bool
	LastError, ErrorFP                      string
	Tags                                    map[string]string
	Traceparent                             string
	RunAt, CreatedAt, StartedAt, LeaseUntil time.Time
	FinishedAt, ExpiresAt, ArchivedAt       time.Time
	Runs                                    []Run
}

// Run is a run that did not end well.
type Run struct {
	Run                int64
	StartedAt, EndedAt time.Time
	Outcome            string
	Worker, Error      string
}

// Page is a page of a list.
type Page struct {
	Jobs []Job
	Next string
}

// Groups are dead jobs by queue and kind of error.
type Groups struct {
	Groups  []Group
	Kinds   int   // of all groups, also those that are left out
	Total   int64 // of the jobs in all of them
	Partial bool  // there are more: not all jobs were looked at
}

// Group is dead jobs of a queue with errors of one kind.
type Group struct {
	Queue, Error string // Error is the fingerprint; empty: jobs without an error
	Jobs         int64
	Sample       Job // the latest by id
}

// Node is how the node itself is.
type Node struct {
	Name, Role, URL, Session, Version string
	Primary                           string // where the primary is, of a standby that knows
	Epoch, Seq                        int64
	Ready                             bool
	NotReady                          string   // why not
	Signals                           []Signal // what a person should look at
	Replica                           *Replica // nil: nothing is replicated
	Copy                              *Copy    // of a standby; nil: none
	DBBytes, WALBytes                 int64
}

// Signal is something that a person should know.
type Signal struct {
	Urgent bool
	Text   string // what is
	Fix    string // what to do
	Link   string // where to look; empty: nowhere
}

// Replica is how replication stands.
type Replica struct {
	URL                        string
	ReplicatedSeq              int64
	TXID                       string
	Lag                        time.Duration
	LastSyncAt, LastSnapshotAt time.Time
	LastError                  string
	LastErrorAt                time.Time
	Offline                    bool
	Put, Get, List, Delete     int64
}

// Copy is how far a standby's copy is.
type Copy struct {
	Epoch        int64
	TXID, Newest string
	AsOf         time.Time
	Problem      string
}
