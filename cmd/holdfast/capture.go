package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// head keeps the first bytes that are written to it. The buffer is not embedded:
// its ReadFrom would be used in the place of Write, and know no limit.
type head struct {
	kept  bytes.Buffer
	limit int
	wrote int // bytes in all
}

// Write implements io.Writer. It takes everything, so that a command that
// prints a lot is not stopped by it.
func (h *head) Write(b []byte) (int, error) {
	h.wrote += len(b)
	h.kept.Write(b[:min(len(b), h.limit-h.kept.Len())])
	return len(b), nil
}

// cut reports whether more was written than was kept.
func (h *head) cut() bool { return h.wrote > h.kept.Len() }

// tail keeps the last bytes that are written to it, and passes all of them on.
type tail struct {
	limit int
	next  *sharedWriter

	mu     sync.Mutex
	kept   []byte
	closed bool // what comes is passed on alone
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.keep(b)
	if _, err := t.next.Write(b); err != nil {
		return 0, fmt.Errorf("pass on: %w", err)
	}
	return len(b), nil
}

func (t *tail) keep(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*t.limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
	}
}

// close makes what was kept so far the end of it.
func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept[max(len(t.kept)-t.limit, 0):])
}

// sharedWriter lets several goroutines write to one place, a write at a time.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
