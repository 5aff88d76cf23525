package hrana

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	watchEvery = 10 * time.Millisecond
	// maxMemory is how much more memory than at its start the process may hold
	// while a query runs. A sort in memory is bounded by nothing else.
	maxMemory = 32 << 20
)

// watch ends what a connection runs at a deadline, and when it needs too much
// memory. An interrupt may come between two statements, where SQLite forgets
// it, so it is repeated until the watch is over.
type watch struct {
	reason atomic.Pointer[stmtError] // why; nil while there is no reason
	stop   chan struct{}
	runs   sync.WaitGroup
}

// newWatch watches until end is called. When ctx ends, so does the query, as
// there is nobody to answer; and when revoked is closed.
func newWatch(ctx context.Context, revoked <-chan struct{}, limit time.Duration, interrupt func()) *watch {
	w := &watch{stop: make(chan struct{})}
	w.runs.Go(func() { w.run(ctx, revoked, limit, interrupt) })
	return w
}

func (w *watch) run(ctx context.Context, revoked <-chan struct{}, limit time.Duration, interrupt func()) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var before int64
	measured := false
	over := func(code, message string) {
		w.reason.CompareAndSwap(nil, &stmtError{message, code})
	}
	gone := ctx.Done()
	for {
		select {
		case <-w.stop:
			return
		case <-gone:
			over(codeInterrupt, "the client is gone")
			gone = nil
		case <-revoked:
			over(codeInterrupt, "interrupted: the node stops serving this database; try again")
			revoked = nil
		case <-deadline.C:
			over(codeInterrupt, "interrupted: the query took longer than "+limit.String())
		case <-tick.C:
			// The first tick is the base: most queries end before it, and cost
			// no measurement.
			used, ok := nativeMemory()
			if !measured {
				before, measured = used, true
			}
			if ok && used-before > maxMemory {
				over(codeNoMem, "interrupted: the query needs too much memory; select or sort less")
			}
		}
		if w.reason.Load() != nil {
			interrupt()
		}
	}
}

// end ends the watch, and waits for it: the connection goes to somebody else.
func (w *watch) end() {
	close(w.stop)
	w.runs.Wait()
}

// err is why the query must end, or nil.
func (w *watch) err() error {
	if e := w.reason.Load(); e != nil {
		return e
	}
	return nil
}
