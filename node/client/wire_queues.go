package client

// Queues answers GET /v1/queues.
type Queues struct {
	Queues []Queue `json:"queues"`
}

// Queue is a queue with its counts and its settings. In a list they are those
// that differ from the default, or absent when none does; of one queue all that
// are in force, and OwnSettings those that differ.
type Queue struct {
	Name             string         `json:"name"`
	Paused           bool           `json:"paused"`
	Counts           Counts         `json:"counts"`
	OldestQueuedAtMS *int64         `json:"oldest_queued_at_ms"`
	Settings         *QueueSettings `json:"settings,omitempty"`
	OwnSettings      *QueueSettings `json:"own_settings,omitempty"`
}

// QueueSettings hold for the jobs of a queue that have no wishes of their own.
// Retention is told by the state in which a job ended: done, dead or cancelled.
type QueueSettings struct {
	MaxAttempts int              `json:"max_attempts,omitempty"`
	TimeoutMS   int64            `json:"timeout_ms,omitempty"`
	LeaseMS     int64            `json:"lease_ms,omitempty"`
	Backoff     *Backoff         `json:"backoff,omitempty"`
	Durability  string           `json:"durability,omitempty"`   // local or replicated
	MaxDepth    int64            `json:"max_depth,omitempty"`    // waiting jobs, above which new ones are refused; absent: no limit
	RetentionMS map[string]int64 `json:"retention_ms,omitempty"` // how long jobs are kept; -1: for ever
	KeepLast    map[string]int64 `json:"keep_last,omitempty"`    // and how many, the latest; absent: any number
}

// QueuePatch is the body of PATCH /v1/queues/{queue}. What is absent stays as
// it is. A zero value, or null, goes back to the default.
type QueuePatch struct {
	Create      bool              `json:"create,omitempty"` // make the queue if it is not there
	MaxAttempts *int              `json:"max_attempts,omitempty"`
	TimeoutMS   *int64            `json:"timeout_ms,omitempty"`
	LeaseMS     *int64            `json:"lease_ms,omitempty"`
	Backoff     *Backoff          `json:"backoff,omitempty"` // with an empty kind: the default
	Durability  *string           `json:"durability,omitempty"`
	MaxDepth    *int64            `json:"max_depth,omitempty"`
	RetentionMS map[string]*int64 `json:"retention_ms,omitempty"` // of the states that it names; -1: for ever
	KeepLast    map[string]*int64 `json:"keep_last,omitempty"`    // of the states that it names
}

// Throughput answers GET /v1/queues/{queue}/throughput: the minutes in which
// the queue did something, oldest first. They are kept for 30 days.
type Throughput struct {
	Minutes []Minute `json:"minutes"`
}

// Minute is what a queue did in a minute.
type Minute struct {
	AtMS     int64 `json:"at_ms"` // its beginning
	Enqueued int64 `json:"enqueued"`
	Done     int64 `json:"done"`
	Failed   int64 `json:"failed"` // runs that did not end well, of jobs that died too
	Dead     int64 `json:"dead"`
}

// DeadRequest is the body of POST /v1/dead/retry and /v1/dead/archive. An
// absent condition selects any dead job.
type DeadRequest struct {
	Queue    string `json:"queue,omitempty"`
	Type     string `json:"type,omitempty"`
	Tag      string `json:"tag,omitempty"`       // name, or name:value
	Error    string `json:"error,omitempty"`     // a fingerprint, as in error_fp
	SinceMS  int64  `json:"since_ms,omitempty"`  // dead since this time, or later
	BeforeMS int64  `json:"before_ms,omitempty"` // dead before this time
	DryRun   bool   `json:"dry_run,omitempty"`   // count and change nothing
	Limit    int    `json:"limit,omitempty"`     // jobs that a step changes, 1 to 1000; 0: 100
	After    string `json:"after,omitempty"`     // next of the step before
}

// DeadStep is what a DeadRequest did, or would do. Next is the after of the
// next step and null at the end; a step may change few jobs, even none, before
// the end.
type DeadStep struct {
	Count int     `json:"count"`
	Next  *string `json:"next"`
}

// DeadGroups answers GET /v1/dead/groups: the dead jobs that a filter selects,
// without archived ones, by queue and kind of error.
type DeadGroups struct {
	Groups  []DeadGroup `json:"groups"`  // those with the most jobs first
	Kinds   int         `json:"kinds"`   // groups in all, also those beyond the limit
	Total   int64       `json:"total"`   // jobs in all of them
	Partial bool        `json:"partial"` // there are too many to look at all: the numbers are the least that they can be
}

// DeadGroup is dead jobs of a queue whose errors are of one kind.
type DeadGroup struct {
	Queue   string `json:"queue"`
	ErrorFP string `json:"error_fp,omitempty"` // the error of a DeadRequest for them; empty: they have no error
	Jobs    int64  `json:"jobs"`
	Sample  Job    `json:"sample"` // the one that was enqueued last, without payload, result and progress
}

// Deleted answers DELETE /v1/jobs/{id}.
type Deleted struct {
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}
