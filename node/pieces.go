package node

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// pieces sends an answer that takes as long as its client reads.
type pieces struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	within time.Duration // in which the client has to take a piece
}

// inPieces lifts the server's own limit, which is for requests that end soon.
func inPieces(w http.ResponseWriter, within time.Duration) (*pieces, error) {
	p := &pieces{w: w, rc: http.NewResponseController(w), within: within}
	if err := p.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return p, nil
}

// send writes a piece through to the client. One that does not take it in time
// has hung up: errHungUp.
func (p *pieces) send(piece []byte) error {
	if err := p.rc.SetWriteDeadline(time.Now().Add(p.within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errHungUp, err)
	}
	if _, err := p.w.Write(piece); err != nil {
		return fmt.Errorf("%w: %w", errHungUp, err)
	}
	if err := p.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errHungUp, err)
	}
	return nil
}
