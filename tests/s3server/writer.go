package s3server

import "net/http"

// recorder notes the status that it passes on, and may break the body.
type recorder struct {
	http.ResponseWriter
	status int
	limit  int64 // of the body; -1: none
	hang   func()
}

// WriteHeader passes the status on.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 || r.status < 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write passes on what is within the limit.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	if r.limit < 0 {
		return r.ResponseWriter.Write(p)
	}
	n := min(int64(len(p)), r.limit)
	r.limit -= n
	if _, err := r.ResponseWriter.Write(p[:n]); err != nil {
		return int(n), err
	}
	if n == int64(len(p)) {
		return int(n), nil
	}
	r.flush()
	if r.hang != nil {
		r.hang()
	}
	panic(http.ErrAbortHandler)
}

// flush sends what is buffered.
func (r *recorder) flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap gives the reverse proxy the other abilities of the writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// discard takes an answer that nobody is to see.
type discard struct{ header http.Header }

// Header returns headers that go nowhere.
func (d *discard) Header() http.Header { return d.header }

// Write takes all of p.
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader takes the status.
func (d *discard) WriteHeader(int) {}
