package node

import (
	"time"

	"holdfast/queue"
)

// EventReaders returns how many read events.
func (a *API) EventReaders() int {
	a.feed.mu.Lock()
	defer a.feed.mu.Unlock()
	return a.feed.readers
}

// EventsKept returns how many changes are kept for readers.
func (a *API) EventsKept() int {
	a.feed.mu.Lock()
	defer a.feed.mu.Unlock()
	return a.feed.kept
}

// FeedKept is how many changes are kept at most.
const FeedKept = feedKept

// SetEventTimes sets the paces of the streams that begin after it.
func (a *API) SetEventTimes(gather, alive, write time.Duration) {
	a.eventTimes = eventTimes{gather: gather, alive: alive, write: write}
}

// QueueOptions are those of a queue that tells a's feed of its commits.
func (a *API) QueueOptions() queue.Options {
	return queue.Options{OnChange: a.feed.changed, OnCommit: a.feed.committed}
}
