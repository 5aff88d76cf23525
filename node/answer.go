package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// maxPooledBytes is the size from which a buffer is left to the garbage
// collector: one large list must not keep its memory for ever.
const maxPooledBytes = 256 << 10

// buffers hold request and answer bodies. Nothing that outlives a handler may
// point into one.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func takeBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func giveBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooledBytes {
		b.Reset()
		buffers.Put(b)
	}
}

// answer is the function answer for what is no error: it does not give it where
// another node may have taken this one's place.
func (a *API) answer(w http.ResponseWriter, status int, body any) error {
	if a.lost() {
		return errLost
	}
	return answer(w, status, body)
}

// answer writes body as JSON. It is encoded as a whole before the first byte
// goes out, so that an error can still become an answer of its own; after that
// the only error is errHungUp.
func answer(w http.ResponseWriter, status int, body any) error {
	buf := takeBuffer()
	defer giveBuffer(buf)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false) // payloads come back as they were sent
	if err := enc.Encode(body); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", jsonContentType)
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("%w: %w", errHungUp, err)
	}
	return nil
}
