package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

const (
	eventContentType = "text/event-stream"
	eventChanges     = 500      // in an event, so that its line stays short
	eventPiece       = 16 << 10 // bytes that wait for a client, and one event more
)

// eventTimes are the paces of GET /v1/events.
type eventTimes struct {
	gather time.Duration // after news, for more of them to come in one piece
	alive  time.Duration // of silence, after which a comment is sent
	write  time.Duration // for the client to take a piece
}

var defaultEventTimes = eventTimes{gather: 20 * time.Millisecond, alive: 15 * time.Second, write: 10 * time.Second}

const (
	positionsParam = "positions_ms"
	leastPositions = 250 * time.Millisecond // between two that say the same
)

// positionsEvery reads positions_ms: a stream of positions alone, which come
// again after so long without another, so that an edge knows that it has
// everything. 0: all events.
func positionsEvery(r *http.Request) (time.Duration, error) {
	ms, err := numberOf(r.URL.Query(), positionsParam)
	if err != nil || r.URL.Query().Get(positionsParam) == "" {
		return 0, err
	}
	return millis(positionsParam, ms, leastPositions, defaultEventTimes.alive)
}

// events is GET /v1/events: a stream of server-sent events (WHATWG HTML,
// section 9.2) that ends when the client hangs up, is too slow, or the node has
// nothing more to say. It is not resumable: what came in between is in the
// database, and a client that connects again reads it there.
//
//   - changes: jobs that came into another state, as client.Changes.
//   - position: a commit or an upload, as client.Position. The first is where
//     the stream begins. The changes of all commits up to it came before it.
//   - end: why the node ends the stream, as client.ErrorBody; the last event.
//
// Several commits may come as one event. The lines that begin with a colon are
// comments, which show both sides that the other is there.
func (a *API) events(_ Store, w http.ResponseWriter, r *http.Request) error {
	every, err := positionsEvery(r)
	if err != nil {
		return err
	}
	only, who := r.URL.Query().Get("queue"), principalOf(r)
	if only != "" {
		if err := who.wantsQueue(only); err != nil {
			return err
		}
	}
	shown := func(queue string) bool { return every == 0 && (only == "" || only == queue) && who.covers(queue) }
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", eventContentType)
		return nil
	}
	reader, err := a.feed.join()
	if err != nil {
		return err
	}
	defer reader.leave()
	// Whoever joined after the feed was cut finds here what it was cut for.
	if err := a.unavailable(w, r); err != nil {
		return err
	}
	if a.stopping.Load() {
		return errStopping
	}
	out, err := inPieces(w, a.eventTimes.write)
	if err != nil {
		return err
	}
	s := &eventStream{out: out, times: a.eventTimes}
	if s.positions = every > 0; s.positions {
		s.times.alive = min(every, s.times.alive)
	}
	h := w.Header()
	h.Set("Content-Type", eventContentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // or nginx would keep events until it has many
	for _, name := range []string{seqHeader, asOfHeader, lagHeader} {
		h.Del(name) // the first event has it
	}
	w.WriteHeader(http.StatusOK)
	return a.follow(r, s, reader, shown)
}

var errStopping = &apiError{code: client.CodeUnavailable, message: "the node is stopping"}

// follow sends what is new until something ends it.
func (a *API) follow(r *http.Request, s *eventStream, reader *feedReader, shown func(queue string) bool) error {
	timer := time.NewTimer(s.times.alive)
	defer timer.Stop()
	var sent *client.Position
	for {
		n, err := reader.take()
		if fault := a.still(r); fault != nil {
			err = fault
		}
		if a.lost() {
			err = &apiError{code: client.CodeNotPrimary, message: errLost.Error()}
		}
		var end *apiError
		if errors.As(err, &end) {
			return s.last(end)
		}
		if err := s.changes(n.commits, shown); err != nil {
			return err
		}
		if !n.more && (sent == nil || !s.same(sent, &n.at)) {
			sent = &n.at
			s.event("position", n.at)
		}
		wait, pause := n.moved, s.times.alive
		switch {
		case n.more:
			pause = 0
		case s.buf.Len() > 0:
			wait, pause = nil, s.times.gather
		}
		if err := s.flush(); err != nil {
			return err
		}
		timer.Reset(pause)
		select {
		case <-r.Context().Done():
			return errHungUp
		case <-reader.end.over:
			return s.last(reader.end.why)
		case <-wait:
		case <-timer.C:
			switch {
			case pause != s.times.alive:
			case s.positions:
				sent = nil // again
			default:
				s.buf.WriteString(": alive\n\n")
			}
		}
	}
}

// same reports whether two positions say the same. Among positions alone a
// commit says nothing before its upload, for which it would only be sent twice.
func (s *eventStream) same(a, b *client.Position) bool {
	sameSeq := (a.ReplicatedSeq == nil) == (b.ReplicatedSeq == nil) && (a.ReplicatedSeq == nil || *a.ReplicatedSeq == *b.ReplicatedSeq)
	return sameSeq && a.Epoch == b.Epoch && a.TXID == b.TXID && (s.positions || a.Seq == b.Seq)
}

// eventStream writes events, a piece at a time.
type eventStream struct {
	out   *pieces
	times eventTimes
	buf   bytes.Buffer

	positions bool // alone, and again in silence
}

// event adds an event to the piece.
func (s *eventStream) event(name string, data any) {
	fmt.Fprintf(&s.buf, "event: %s\ndata: ", name)
	enc := json.NewEncoder(&s.buf) // ends the line, and breaks none
	enc.SetEscapeHTML(false)
	_ = enc.Encode(data) // of strings and numbers into memory: cannot fail
	s.buf.WriteByte('\n')
}

// changes adds what commits changed in the queues that are shown, and sends what
// becomes a piece: a thousand clients that do not read keep no more than that
// each.
func (s *eventStream) changes(commits []batch, shown func(queue string) bool) error {
	var some client.Changes
	send := func() error {
		if len(some.Changes) == 0 {
			return nil
		}
		s.event("changes", some)
		some.Changes = some.Changes[:0]
		if s.buf.Len() < eventPiece {
			return nil
		}
		return s.flush()
	}
	for _, b := range commits {
		some.Seq = b.seq.String()
		for _, c := range b.changes {
			if !shown(c.Queue) {
				continue
			}
			if some.Changes = append(some.Changes, changeOf(c)); len(some.Changes) == eventChanges {
				if err := send(); err != nil {
					return err
				}
			}
		}
	}
	return send()
}

func changeOf(c queue.Change) client.Change {
	wire := client.Change{ID: idOf(c.Job), Queue: c.Queue}
	if c.From != 0 {
		wire.From = c.From.String()
	}
	if c.To != 0 {
		wire.To = c.To.String()
	}
	return wire
}

// last sends why the stream ends.
func (s *eventStream) last(why *apiError) error {
	s.event("end", why.body())
	return s.flush()
}

// flush sends what is in the buffer.
func (s *eventStream) flush() error {
	if s.buf.Len() == 0 {
		return nil
	}
	if err := s.out.send(s.buf.Bytes()); err != nil {
		return err
	}
	if s.buf.Reset(); s.buf.Cap() > maxPooledBytes {
		s.buf = bytes.Buffer{}
	}
	return nil
}
