package hrana

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	maxQueries = 4               // that run at a time
	maxWaiting = 64              // requests that wait for their turn
	maxTurn    = 1 * time.Second // that one waits
)

// slots bound how many requests read at a time: each may take a processor and
// tens of megabytes. A few wait for a moment, so that many short ones pass.
type slots struct {
	free    chan struct{}
	waiting atomic.Int64
}

func newSlots() *slots { return &slots{free: make(chan struct{}, maxQueries)} }

// take waits for a slot, which give returns. Errors: *httpError.
func (s *slots) take(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	busy := refuse(http.StatusServiceUnavailable, "BUSY", "too many queries run; try again soon")
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > maxWaiting {
		return busy
	}
	turn := time.NewTimer(maxTurn)
	defer turn.Stop()
	select {
	case s.free <- struct{}{}:
		return nil
	case <-turn.C:
	case <-ctx.Done():
	}
	return busy
}

func (s *slots) give() { <-s.free }
