package client

import "encoding/json"

// The JSON of the HTTP API. Times and durations are integers of milliseconds
// (times since the Unix epoch), ids are strings, absent means the default.

// Spec is a job as a producer hands it in. Only Queue is required.
type Spec struct {
	Queue          string            `json:"queue"`
	Type           string            `json:"type,omitempty"`
	Payload        json.RawMessage   `json:"payload,omitempty"` // any JSON value up to 1 MiB
	Priority       int               `json:"priority,omitempty"`
	RunAtMS        int64             `json:"run_at_ms,omitempty"`
	DelayMS        int64             `json:"delay_ms,omitempty"`
	MaxAttempts    int               `json:"max_attempts,omitempty"`
	TimeoutMS      int64             `json:"timeout_ms,omitempty"`
	Backoff        *Backoff          `json:"backoff,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	ExpiresAtMS    int64             `json:"expires_at_ms,omitempty"`
	Durability     string            `json:"durability,omitempty"`  // local or replicated; empty: the node's default
	Traceparent    string            `json:"traceparent,omitempty"` // of W3C Trace Context; handed on with the claim
}

// Backoff says how long a failed job waits: exponential (base·2ⁿ⁻¹), quadratic
// (base·n²), fixed (base) or list.
type Backoff struct {
	Kind     string  `json:"kind"`
	BaseMS   int64   `json:"base_ms,omitempty"`
	MaxMS    int64   `json:"max_ms,omitempty"`
	DelaysMS []int64 `json:"delays_ms,omitempty"`
}

// Enqueued is the answer to one Spec.
type Enqueued struct {
	ID          string `json:"id"`
	Queue       string `json:"queue"`
	Type        string `json:"type"`
	State       string `json:"state"`
	Duplicate   bool   `json:"duplicate"`
	RunAtMS     int64  `json:"run_at_ms"`
	CreatedAtMS int64  `json:"created_at_ms"`
}

// EnqueuedBatch answers an array of specs, in its order.
type EnqueuedBatch struct {
	Jobs []Enqueued `json:"jobs"`
}

// ClaimRequest is the body of POST /v1/claims. Acks and fails are settled
// first, in the same commit.
type ClaimRequest struct {
	Queues  []string `json:"queues"`
	Worker  string   `json:"worker,omitempty"`
	Max     int      `json:"max,omitempty"`
	WaitMS  int64    `json:"wait_ms,omitempty"`
	LeaseMS int64    `json:"lease_ms,omitempty"`
	Acks    []Ack    `json:"acks,omitempty"`
	Fails   []Fail   `json:"fails,omitempty"`
}

// Claims answers a ClaimRequest; Jobs is empty when the wait ended without one.
type Claims struct {
	Jobs     []Claimed `json:"jobs"`
	Acks     []Result  `json:"acks,omitempty"`
	Fails    []Result  `json:"fails,omitempty"`
	Stopping bool      `json:"stopping,omitempty"` // the node stops: it hands out no job, and ended the wait
}

// Claimed is a job in the hands of a worker.
type Claimed struct {
	ID           string            `json:"id"`
	Queue        string            `json:"queue"`
	Type         string            `json:"type"`
	Payload      json.RawMessage   `json:"payload"`
	Priority     int               `json:"priority"`
	Run          int64             `json:"run"`
	Attempt      int               `json:"attempt"`
	MaxAttempts  int               `json:"max_attempts"`
	TimeoutMS    int64             `json:"timeout_ms"`
	Tags         map[string]string `json:"tags,omitempty"`
	Traceparent  string            `json:"traceparent,omitempty"`
	RunAtMS      int64             `json:"run_at_ms"`
	CreatedAtMS  int64             `json:"created_at_ms"`
	Lease        string            `json:"lease"`
	LeaseUntilMS int64             `json:"lease_until_ms"`

	progress func(json.RawMessage) // in the hands of a Worker's handler
}

// Ack says that a run ended well.
type Ack struct {
	Lease  string          `json:"lease"`
	Result json.RawMessage `json:"result,omitempty"` // any JSON value up to 64 KiB
}

// Fail says that a run ended badly. A nil RetryInMS leaves the delay to the
// job's back-off.
type Fail struct {
	Lease     string `json:"lease"`
	Error     string `json:"error,omitempty"`
	RetryInMS *int64 `json:"retry_in_ms,omitempty"`
	Fatal     bool   `json:"fatal,omitempty"`
}

// Release gives a job back without costing it an attempt.
type Release struct {
	Lease string `json:"lease"`
}

// Snoozing puts a job off: it comes back after DelayMS, and its run costs no
// attempt.
type Snoozing struct {
	Lease   string `json:"lease"`
	DelayMS int64  `json:"delay_ms"` // up to ten years
}

// Extend prolongs a lease, and may report progress.
type Extend struct {
	Lease    string          `json:"lease"`
	LeaseMS  int64           `json:"lease_ms,omitempty"`
	Progress json.RawMessage `json:"progress,omitempty"` // any JSON value up to 64 KiB
}

// AckRequest is the body of POST /v1/acks.
type AckRequest struct {
	Acks       []Ack  `json:"acks"`
	Durability string `json:"durability,omitempty"`
}

// FailRequest is the body of POST /v1/fails.
type FailRequest struct {
	Fails      []Fail `json:"fails"`
	Durability string `json:"durability,omitempty"`
}

// ReleaseRequest is the body of POST /v1/releases.
type ReleaseRequest struct {
	Releases []Release `json:"releases"`
}

// SnoozeRequest is the body of POST /v1/snoozes.
type SnoozeRequest struct {
	Snoozes []Snoozing `json:"snoozes"`
}

// ExtendRequest is the body of POST /v1/extends.
type ExtendRequest struct {
	Extends []Extend `json:"extends"`
}

// Results answers a batch, in its order.
type Results struct {
	Results []Result `json:"results"`
}

// Result is what became of one item of a batch, and the whole answer of the
// single forms such as POST /v1/jobs/{id}/ack.
type Result struct {
	ID           string     `json:"id,omitempty"` // the job that the token names; empty: it names none
	OK           bool       `json:"ok"`
	State        string     `json:"state,omitempty"`
	RunAtMS      int64      `json:"run_at_ms,omitempty"`
	LeaseUntilMS int64      `json:"lease_until_ms,omitempty"`
	Cancel       bool       `json:"cancel,omitempty"`
	Error        *ErrorBody `json:"error,omitempty"`
}

// ErrorBody is an error on the wire.
type ErrorBody struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// ErrorAnswer is the body of every answer that is not a success.
type ErrorAnswer struct {
	Error ErrorBody `json:"error"`
}

// Job is a job as it stands. Times that have not come are null.
type Job struct {
	ID              string            `json:"id"`
	Queue           string            `json:"queue"`
	Type            string            `json:"type"`
	State           string            `json:"state"`
	Priority        int               `json:"priority"`
	Payload         json.RawMessage   `json:"payload,omitempty"`
	Run             int64             `json:"run"`
	Attempt         int               `json:"attempt"`
	MaxAttempts     int               `json:"max_attempts"`
	Failures        int               `json:"failures"`
	Crashes         int               `json:"crashes"`
	Interruptions   int               `json:"interruptions"`
	TimeoutMS       int64             `json:"timeout_ms"`
	Backoff         *Backoff          `json:"backoff,omitempty"`
	LockedBy        string            `json:"locked_by"`
	CancelRequested bool              `json:"cancel_requested"`
	LastError       *string           `json:"last_error"`
	ErrorFP         string            `json:"error_fp,omitempty"`
	Result          json.RawMessage   `json:"result,omitempty"`
	Progress        json.RawMessage   `json:"progress,omitempty"`
	Tags            map[string]string `json:"tags,omitempty"`
	Traceparent     string            `json:"traceparent,omitempty"`
	RunAtMS         int64             `json:"run_at_ms"`
	CreatedAtMS     int64             `json:"created_at_ms"`
	StartedAtMS     *int64            `json:"started_at_ms"`
	LeaseUntilMS    *int64            `json:"lease_until_ms"`
	FinishedAtMS    *int64            `json:"finished_at_ms"`
	ExpiresAtMS     *int64            `json:"expires_at_ms"`
	ArchivedAtMS    *int64            `json:"archived_at_ms"`
	PayloadHidden   bool              `json:"payload_hidden,omitempty"` // the token lacks the scope payload: payload, result and progress are left out
	Runs            []Run             `json:"runs,omitempty"`           // runs that did not end well, oldest first; not in lists
}

// Run is one run that did not end well.
type Run struct {
	Run         int64  `json:"run"`
	StartedAtMS int64  `json:"started_at_ms"`
	EndedAtMS   int64  `json:"ended_at_ms"`
	Outcome     string `json:"outcome"` // failed, timeout, crashed, interrupted or cancelled
	Worker      string `json:"worker"`
	Error       string `json:"error"`
}

// Jobs is a page of GET /v1/jobs. Next is the after of the next page and null
// at the end; a page may be short, even empty, before the end.
type Jobs struct {
	Jobs []Job   `json:"jobs"`
	Next *string `json:"next"`
}

// RetryRequest is the optional body of POST /v1/jobs/{id}/retry.
type RetryRequest struct {
	Payload json.RawMessage `json:"payload,omitempty"` // takes the place of the job's
}

// Counts are a queue's jobs by state; dead leaves archived ones out.
type Counts struct {
	Scheduled int64 `json:"scheduled"`
	Queued    int64 `json:"queued"`
	Running   int64 `json:"running"`
	Done      int64 `json:"done"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
}

// Health answers GET /v1/health: the numbers a person needs first.
type Health struct {
	Queues      []QueueHealth `json:"queues"`
	Replication Replication   `json:"replication"`
}

// QueueHealth is a queue in Health.
type QueueHealth struct {
	Name             string  `json:"name"`
	Paused           bool    `json:"paused"`
	Scheduled        int64   `json:"scheduled"`
	Queued           int64   `json:"queued"`
	Running          int64   `json:"running"`
	Done             int64   `json:"done"`
	Dead             int64   `json:"dead"`
	OldestQueuedAtMS *int64  `json:"oldest_queued_at_ms"`
	LastError        *string `json:"last_error"`
	LastErrorAtMS    *int64  `json:"last_error_at_ms"`
}

// Replication says where the file stands: Seq is its last commit, all commits
// up to ReplicatedSeq are in the replica, and LagMS is the age of the oldest
// that is not. ReplicatedSeq is null as long as it is not known, and both are
// null on a node that does not replicate.
type Replication struct {
	Epoch         int64  `json:"epoch"`
	Seq           int64  `json:"seq"`
	ReplicatedSeq *int64 `json:"replicated_seq"`
	LagMS         *int64 `json:"lag_ms"`
}

// ReplicationStatus answers GET /v1/replication. A time is null when it has not
// come yet.
type ReplicationStatus struct {
	URL              string   `json:"url"` // of the root, without secrets
	Epoch            int64    `json:"epoch"`
	Seq              int64    `json:"seq"`
	ReplicatedSeq    *int64   `json:"replicated_seq"`
	TXID             string   `json:"txid"` // of the last upload, as Litestream prints it
	LagMS            int64    `json:"lag_ms"`
	PendingSinceMS   *int64   `json:"pending_since_ms"` // since when a commit waits for its upload
	LastSyncAtMS     *int64   `json:"last_sync_at_ms"`
	LastError        *string  `json:"last_error"` // null: the last upload was good
	LastErrorAtMS    *int64   `json:"last_error_at_ms"`
	Offline          bool     `json:"offline"` // begun without the bucket, which was not reached yet
	LastSnapshotAtMS *int64   `json:"last_snapshot_at_ms"`
	WALBytes         int64    `json:"wal_bytes"`
	DBBytes          int64    `json:"db_bytes"`
	Requests         Requests `json:"requests"`
}

// Requests counts what was sent to the bucket since the node started, by the
// kinds that providers have prices for.
type Requests struct {
	Put    int64 `json:"put"`
	Get    int64 `json:"get"`
	List   int64 `json:"list"`
	Delete int64 `json:"delete"`
	// SinceMS is when the first of them was sent; 0: none was.
	SinceMS int64 `json:"since_ms"`
}

// The roles of a node.
const (
	RolePrimary = "primary" // it writes
	RoleStandby = "standby" // it waits to take over
	RoleEdge    = "edge"    // it reads, from a copy
)

// Node answers GET /v1/node: who answers here. It does so before it is ready.
type Node struct {
	Node    string `json:"node"` // its name
	Role    string `json:"role"`
	Session string `json:"session"` // of this run, as lock.json has it
	Epoch   int64  `json:"epoch"`
	URL     string `json:"url"` // under which others reach it
	// Follows is how far the copy is that a standby or an edge keeps; nil for any other.
	Follows *Follows `json:"follows,omitempty"`
}

// Follows is how far a copy is that a node keeps of another's database.
type Follows struct {
	Epoch      int64   `json:"epoch"`       // 0: there is no copy yet
	TXID       string  `json:"txid"`        // everything up to it is in the copy
	NewestTXID string  `json:"newest_txid"` // of the replica, as far as it is known
	AsOfMS     *int64  `json:"as_of_ms"`    // the copy is that of this time or newer; null: not known
	LagMS      *int64  `json:"lag_ms"`      // since then
	Problem    *string `json:"problem"`     // what holds it up; null: nothing
}

// Version answers GET /version.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	SQLite  string `json:"sqlite"`
	Schema  int    `json:"schema"`
}

// Ready answers GET /readyz: 200 when every part is ready, else 503 with the
// reasons. Warnings say what is exposed although it is ready: what is not in
// the replica yet would be lost with the machine.
type Ready struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}
