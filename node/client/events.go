package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	eventSilence = 45 * time.Second // three comments that did not come: the connection is dead
	// positionSilence is added to three positions that did not come.
	positionSilence = 5 * time.Second
	maxEvent        = 1 << 20 // bytes of a line
)

// Event is one of [Client.Events]: changes of jobs, or a position. The other
// is nil.
type Event struct {
	Changes  *Changes  `json:"changes,omitempty"`
	Position *Position `json:"position,omitempty"`
}

// Events yields what happens in a node from now on: the jobs of a queue, or of
// all for "", that come into another state, and how far the database and its
// copy in object storage are. The first event is a position; all changes after
// it will come, so a caller that reads a job or a list then knows the state
// that the changes go on from. All changes up to a position came before it.
//
// The stream cannot be resumed. When it ends, which it does with an error, read
// the state again and begin anew. The error is an *UnreachableError when the
// connection broke, an *Error of the code unavailable when the node stops, of
// not_primary when another one took over, and of unauthorized when the
// token was revoked or expired, and of too_slow when the caller took longer with
// the events than the node keeps them.
func (c *Client) Events(ctx context.Context, queue string) iter.Seq2[Event, error] {
	if queue == "" {
		return c.events(ctx, nil, eventSilence)
	}
	return c.events(ctx, url.Values{"queue": {queue}}, eventSilence)
}

// Positions yields how far the database and its copy in object storage are: at
// once, after each upload, and again when nothing was uploaded for a time, which
// is from 250 ms to 15 s. It ends as Events does.
func (c *Client) Positions(ctx context.Context, again time.Duration) iter.Seq2[Position, error] {
	return func(yield func(Position, error) bool) {
		for event, err := range c.events(ctx, url.Values{"positions_ms": {strconv.FormatInt(again.Milliseconds(), 10)}}, 3*again+positionSilence) {
			switch {
			case err != nil:
				yield(Position{}, err)
				return
			case event.Position != nil && !yield(*event.Position, nil):
				return
			}
		}
	}
}

// events yields events until the node says nothing for a time, or ends it.
func (c *Client) events(ctx context.Context, query url.Values, silence time.Duration) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		req := call{method: http.MethodGet, path: "/v1/events", query: query, media: "text/event-stream"}
		body, err := c.stream(ctx, req)
		if err != nil {
			yield(Event{}, fmt.Errorf("events: %w", err))
			return
		}
		defer body.Close()
		base := c.nodes.current()
		silent := time.AfterFunc(silence, func() { cancel(errNoAnswerInTime) })
		defer silent.Stop()
		events := newEventReader(body)
		for {
			event, err := events.next(func() { silent.Reset(silence) })
			if err == nil {
				silent.Stop() // while the caller has it
				if !yield(event, nil) {
					return
				}
				silent.Reset(silence)
				continue
			}
			yield(Event{}, fmt.Errorf("events: %w", ended(ctx, base, err)))
			return
		}
	}
}

// ended is why a stream from base ended, which the node says of itself or not.
func ended(ctx context.Context, base string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errNoAnswerInTime):
		err = cause
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &UnreachableError{URL: base, Err: err}
}

// eventReader reads server-sent events (WHATWG HTML, section 9.2.6).
type eventReader struct{ lines *bufio.Scanner }

func newEventReader(r io.Reader) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	return &eventReader{lines}
}

// next returns the next event that is known here. It calls heard for every
// line, also for those that say nothing. At the end it returns the node's own
// *Error if there was one, else io.ErrUnexpectedEOF.
func (e *eventReader) next(heard func()) (Event, error) {
	var name string
	var data []byte
	for e.lines.Scan() {
		heard()
		line := e.lines.Bytes()
		if len(line) > 0 {
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				name = string(value)
			case "data":
				if len(data)+len(value) > maxEvent {
					return Event{}, fmt.Errorf("an event is longer than %d bytes", maxEvent)
				}
				data = append(append(data, value...), '\n')
			}
			continue
		}
		event, known, err := eventOf(name, data)
		if known || err != nil {
			return event, err
		}
		name, data = "", nil
	}
	if err := e.lines.Err(); err != nil {
		return Event{}, err
	}
	return Event{}, io.ErrUnexpectedEOF
}

// eventOf decodes an event. One that a later version of the node may send is
// not known, and no error.
func eventOf(name string, data []byte) (event Event, known bool, err error) {
	switch name {
	case "changes":
		event.Changes = &Changes{}
		err = json.Unmarshal(data, event.Changes)
	case "position":
		event.Position = &Position{}
		err = json.Unmarshal(data, event.Position)
	case "end":
		var why ErrorBody
		if err = json.Unmarshal(data, &why); err == nil {
			err = &Error{Code: why.Code, Message: why.Message}
		}
	default:
		return event, false, nil
	}
	if _, ok := errors.AsType[*Error](err); err != nil && !ok {
		err = fmt.Errorf("event %s is not that of a Holdfast node: %w", name, err)
	}
	if err != nil {
		event = Event{}
	}
	return event, err == nil, err
}
