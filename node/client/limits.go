package client

import (
	"encoding/json"
	"time"
)

// Limits of a node on what a worker sends, which it keeps so as not to be
// refused.
const (
	MaxResult   = 64 << 10 // bytes of a result
	MaxProgress = 64 << 10 // bytes of a progress report
	MaxError    = 8 << 10  // bytes of an error that are kept
	MaxItems    = 1000     // jobs in a claim, items in a batch
	MaxQueues   = 100      // queues in a claim
	MaxNesting  = 512      // levels of arrays and objects in a payload, a result or progress
	MaxName     = 128      // bytes of the name of a queue or a type
	MinLease    = time.Second
	MaxLease    = 24 * time.Hour

	maxWait  = 60 * time.Second // of one request
	maxDelay = 10 * 365 * 24 * time.Hour
)

// Nesting returns how deep the arrays and objects of a valid JSON text are
// nested.
func Nesting(text json.RawMessage) (deepest int) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}
