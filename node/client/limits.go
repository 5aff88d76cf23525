package client

import "time"

// Limits of a node on what a worker sends, which it keeps so as not to be
// refused.
const (
	MaxResult = 64 << 10 // bytes of a result
	MaxError  = 8 << 10  // bytes of an error that are kept
	MaxItems  = 1000     // jobs in a claim, items in a batch
	MaxQueues = 100      // queues in a claim
	MaxName   = 128      // bytes of the name of a queue or a type
	MinLease  = time.Second
	MaxLease  = 24 * time.Hour
)
