package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Paces of GET /live.
const (
	livePace  = time.Second      // between two events at least
	liveAlive = 15 * time.Second // after which a comment is sent
	liveWrite = 10 * time.Second // for the visitor to take an event
)

// live is GET /live: server-sent events (WHATWG HTML, section 9.2), each of which
// says that something was committed and the page may be out of date. They carry
// nothing but how far the database is, and there is one a second at most, so
// that an open page costs a busy node next to nothing.
func (h *Handler) live(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // the server's own is for requests that end soon
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // or nginx would keep events until it has many
	w.WriteHeader(http.StatusOK)
	send := func(text string) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(liveWrite))
		_, err := fmt.Fprint(w, text)
		return err == nil && rc.Flush() == nil
	}
	at := ""
	for send(fmt.Sprintf("event: changed\ndata: %s\n\n", at)) {
		now, ok := h.await(r, v, at, send)
		if !ok {
			return nil
		}
		at = now
		select {
		case <-r.Context().Done():
			return nil
		case <-time.After(livePace):
		}
		// Who may not look any more is not told any more either.
		if _, err := h.gate.Visitor(r); err != nil {
			return nil
		}
	}
	return nil
}

// await waits for a change, with a sign of life from time to time; false: there
// is nothing more to wait for.
func (h *Handler) await(r *http.Request, v *Visitor, at string, send func(string) bool) (string, bool) {
	for {
		ctx, cancel := context.WithTimeout(r.Context(), liveAlive)
		now, err := v.Reader.Changed(ctx, at)
		quiet := ctx.Err() != nil && r.Context().Err() == nil
		cancel()
		if err == nil && now != at {
			return now, true
		}
		if !quiet || !send(": alive\n\n") {
			return "", false
		}
	}
}
