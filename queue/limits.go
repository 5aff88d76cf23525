package queue

import "time"

// Limits on what a request may hold.
const (
	MaxPayload       = 1 << 20          // bytes of a payload
	MaxResult        = 64 << 10         // bytes of a result
	MaxProgress      = 64 << 10         // bytes of a progress report
	MaxError         = 8 << 10          // bytes of an error that are kept
	MaxBatch         = 1000             // specs in an Enqueue; items in an Ack, Fail, Release or Extend
	MaxClaim         = 1000             // jobs in a claim
	MaxQueuesInClaim = 100              // queues in a claim
	MaxName          = 128              // bytes of a queue's, type's or worker's name
	MaxKey           = 512              // bytes of an idempotency key
	MaxTraceparent   = 128              // bytes of a traceparent
	MaxTags          = 16               // tags of a job, each up to 64 bytes of name and 256 of value
	MaxPage          = 1000             // jobs of a list page
	MinPriority      = -1000            //
	MaxPriority      = 1000             // few distinct priorities keep "oldest" a handful of seeks
	MaxWait          = 60 * time.Second // of a claim
	MaxLease         = 24 * time.Hour   //
	MinLease         = time.Second      //
	MaxTimeout       = 7 * 24 * time.Hour
	MaxDelay         = 10 * 365 * 24 * time.Hour // how far ahead run_at may lie
	MaxAttempts      = 1000
	MaxTx            = time.Second // of a Tx, which holds up every write
)

// Defaults of a queue that has no settings of its own.
const (
	DefaultType        = "default" // of a Spec that names none
	DefaultLease       = 30 * time.Second
	DefaultTimeout     = 10 * time.Minute
	DefaultMaxAttempts = 5
	DefaultRetention   = 7 * 24 * time.Hour // of done and of cancelled jobs; dead ones are kept
	KeyLife            = 24 * time.Hour     // how long the key of a done job still answers
)

const (
	payloadPage  = 32 // jobs of a page with payloads, each of up to 1 MiB
	crashLoop    = 3  // crashes after which a job is quarantined
	throughputBy = 30 * 24 * time.Hour
)
