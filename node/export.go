package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	ndjsonContentType = "application/x-ndjson"
	exportChunk       = 256 << 10        // bytes that are written at a time
	exportTimeout     = 30 * time.Second // for the client to take a chunk
)

// export is GET /v1/export: every job, with its payload, its result and its
// failed runs, a line of JSON each, by id. It may take as long as the client
// reads. An error after the first line cuts the answer off before its end,
// which every HTTP client notices: a broken export never looks like a whole one.
func (a *API) export(s Store, w http.ResponseWriter, r *http.Request) error {
	p := principalOf(r)
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", ndjsonContentType)
		return nil
	}
	out, err := inPieces(w, exportTimeout)
	if err != nil {
		return err
	}
	buf := takeBuffer()
	defer giveBuffer(buf)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	began := false
	flush := func() error {
		if a.lost() {
			return errLost
		}
		if err := a.still(r); err != nil {
			return err
		}
		if !began {
			began = true
			w.Header().Set("Content-Type", ndjsonContentType)
			w.WriteHeader(http.StatusOK)
		}
		defer buf.Reset()
		return out.send(buf.Bytes())
	}
	fault := func() error {
		for job, err := range s.Export(r.Context()) {
			if err != nil {
				return err
			}
			if !p.covers(job.Queue) {
				continue
			}
			if err := enc.Encode(p.show(&job)); err != nil {
				return fmt.Errorf("encode job %d: %w", job.ID, err)
			}
			if buf.Len() >= exportChunk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return flush()
	}()
	if fault == nil || !began {
		return fault
	}
	if !errors.Is(fault, errHungUp) {
		a.log.Warn("an export was cut off", "err", fault)
	}
	panic(http.ErrAbortHandler)
}
