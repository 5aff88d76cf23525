package node

import (
	"strconv"
	"sync"

	"holdfast/node/client"
	"holdfast/queue"
)

// Limits of the feed. What it keeps does not depend on how many read.
const (
	feedKept    = 64 << 10 // changes that are kept for readers, at about 40 bytes each
	feedReaders = 1000
	feedTaken   = 1024 // changes after which a reader takes no further commit at once
)

// feed is what the streams of GET /v1/events read: the last changes of jobs,
// once for all of them, and how far the database and its copy are.
//
// The writer of the queue only appends, whatever the readers do: it hands in the
// slice that it made, and wakes those who wait. Each reader has a place of its
// own in the changes and goes on at its own pace; one that is overtaken by
// their end has to start anew. Nothing is kept while nobody reads.
type feed struct {
	mu      sync.Mutex
	readers int
	commits []batch // the last, as long as they have no more than feedKept changes
	first   uint64  // number of commits[0]
	kept    int     // changes in commits
	at      client.Position
	moved   chan struct{} // closed at the next news
	awaited bool          // somebody has moved
	end     *ending
}

// batch is what a commit changed.
type batch struct {
	seq     queue.Seq
	changes []queue.Change
}

// ending tells the readers of a time to go.
type ending struct {
	over chan struct{} // closed when they must
	why  *apiError     // set before
}

func newFeed() *feed {
	return &feed{moved: make(chan struct{}), end: &ending{over: make(chan struct{})}}
}

// open begins with a database as it is.
func (f *feed) open(seq queue.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.Epoch != seq.Epoch {
		f.at = client.Position{}
	}
	f.at.Epoch, f.at.Seq = seq.Epoch, seq.N
}

// changed keeps what a commit changed, of which committed tells next.
func (f *feed) changed(seq queue.Seq, changes []queue.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers == 0 {
		return
	}
	f.commits = append(f.commits, batch{seq, changes})
	f.kept += len(changes)
	for f.kept > feedKept {
		f.kept -= len(f.commits[0].changes)
		f.commits[0] = batch{}
		f.commits = f.commits[1:]
		f.first++
	}
}

// committed tells of a commit.
func (f *feed) committed(seq queue.Seq) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at.Epoch, f.at.Seq = seq.Epoch, seq.N
	f.wake()
}

// uploaded tells how far the replica is.
func (f *feed) uploaded(epoch int64, txid uint64, seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at.Epoch, f.at.TXID, f.at.ReplicatedSeq = epoch, txidText(txid), &seq
	f.wake()
}

func (f *feed) wake() {
	if f.awaited {
		f.awaited = false
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

// nudge makes the readers look whether they may go on.
func (f *feed) nudge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
}

// cut sends all readers away.
func (f *feed) cut(why *apiError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end.why = why
	close(f.end.over)
	f.end = &ending{over: make(chan struct{})}
}

// feedReader is a reader's place in a feed.
type feedReader struct {
	feed *feed
	next uint64 // commit
	end  *ending
}

// join adds a reader of what comes from now on, unless there are too many. It
// must leave.
func (f *feed) join() (*feedReader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers >= feedReaders {
		return nil, &apiError{code: client.CodeUnavailable, message: "too many readers of events; try again later"}
	}
	f.readers++
	return &feedReader{feed: f, next: f.first + uint64(len(f.commits)), end: f.end}, nil
}

func (r *feedReader) leave() {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers--; f.readers == 0 {
		f.first += uint64(len(f.commits))
		f.commits, f.kept = nil, 0
	}
}

// news is what a reader finds.
type news struct {
	commits []batch
	at      client.Position // when more is false all changes up to it are in commits, or were before
	more    bool            // there are further commits to take
	moved   <-chan struct{} // closed when there is something new
}

var errTooSlow = &apiError{code: client.CodeTooSlow, message: "the reader was too slow, and what it missed is gone; read the state again, then the events"}

// take returns what is new since the last call.
func (r *feedReader) take() (news, error) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.next < f.first {
		return news{}, errTooSlow
	}
	n := news{at: f.at, moved: f.moved}
	f.awaited = true
	taken := 0
	for _, b := range f.commits[r.next-f.first:] {
		if taken >= feedTaken {
			n.more = true
			break
		}
		n.commits = append(n.commits, b)
		taken += len(b.changes)
		r.next++
	}
	return n, nil
}

// position returns how far the database and its replica are, a channel that is
// closed when that changes, and one that is closed when there is nothing more to
// wait for.
func (f *feed) position() (at string, moved, over <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited = true
	at = strconv.FormatInt(f.at.Epoch, 10) + "." + strconv.FormatInt(f.at.Seq, 10) + "." + f.at.TXID
	return at, f.moved, f.end.over
}
