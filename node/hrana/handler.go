package hrana

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Limits of a request. They hold for all of its statements together.
const (
	queryTime   = 2 * time.Second // from the first statement on
	maxRows     = 10_000          // of an answer
	maxAnswer   = 4 << 20         // bytes of an answer's rows
	maxBody     = 1 << 20         // bytes of a request
	maxSQL      = 100_000         // bytes of a statement
	maxRequests = 1000            // of a pipeline; steps of a batch; statements of a sequence
)

// ErrUnavailable is what a Source returns, perhaps with more words, when it has
// nothing to serve now but may have soon.
var ErrUnavailable = errors.New("there is no database to read yet")

// Access says what somebody may see.
type Access int

// The kinds of Access, each with all that is before it.
const (
	AccessNone    Access = iota // nothing: the answer is 401
	AccessView                  // everything but what jobs carry
	AccessPayload               // payloads, results, progress and idempotency keys too
)

// RefusalError is an error of Authorize that the client is told.
type RefusalError struct {
	Status  int // of HTTP
	Code    string
	Message string
}

// Error returns the message.
func (e *RefusalError) Error() string { return e.Message }

// Snapshot is a database that can be read until it is released.
type Snapshot struct {
	DB   *sql.DB   // opened by [Driver.Open]
	AsOf time.Time // it holds everything that was committed up to then
	// Seq, unless empty, is the epoch.seq of a database that nobody changes as
	// long as it is held. Else both are read in a transaction.
	Seq     string
	Release func() // called once, when nothing of the database is used any more
	// Revoked, unless nil, is closed when the database is wanted back: what
	// reads it is interrupted.
	Revoked <-chan struct{}
}

// Source hands out snapshots.
type Source interface {
	// Acquire returns the newest one. Errors: ErrUnavailable, others.
	Acquire(ctx context.Context) (Snapshot, error)
}

// Options configure a Handler. Source is required.
type Options struct {
	Source Source
	// Authorize says what whoever makes a request may see; the request's body
	// is not for it. AccessNone without an error is answered with 401. nil:
	// everybody may view. SQL cannot be bounded to some queues: a token that is
	// must get AccessNone. Errors: *RefusalError, others.
	Authorize func(r *http.Request) (Access, error)
	// Origins of web pages that may ask, such as "https://app.example".
	Origins []string
	Version string           // of the program, for /version
	Logger  *slog.Logger     // nil: nothing is logged
	Now     func() time.Time // nil: time.Now
}

// Handler serves Hrana over HTTP at the path /.
type Handler struct {
	opts  Options
	log   *slog.Logger
	mux   *http.ServeMux
	slots *slots
}

// New returns a handler.
func New(opts Options) *Handler {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Authorize == nil {
		opts.Authorize = func(*http.Request) (Access, error) { return AccessView, nil }
	}
	h := &Handler{opts: opts, log: opts.Logger, mux: http.NewServeMux(), slots: newSlots()}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	for _, version := range []string{"v2", "v3"} {
		h.mux.HandleFunc("GET /"+version, hello)
		h.mux.HandleFunc("POST /"+version+"/pipeline", h.with(h.pipeline))
	}
	h.mux.HandleFunc("POST /v3/cursor", h.with(h.cursor))
	h.mux.HandleFunc("GET /health", hello)
	h.mux.HandleFunc("GET /version", h.version)
	h.mux.HandleFunc("/", h.with(func(*session, http.ResponseWriter, *http.Request) error {
		return refuse(http.StatusNotFound, "NOT_FOUND", "there is nothing here; this is Hrana 2 and 3 over HTTP in JSON")
	}))
	return h
}

// hello tells clients that a version of the protocol is spoken.
func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, "ok\n") // the client is gone, if anything
}

func (h *Handler) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, "holdfast "+h.opts.Version+"\n") // the client is gone, if anything
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.cors(w, r) {
		return
	}
	h.mux.ServeHTTP(w, r)
}

// with checks the token, and turns the error of f into an answer.
func (h *Handler) with(f func(s *session, w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := &session{h: h, ctx: r.Context(), stream: &stream{}}
		defer s.close()
		err := s.admit(r)
		if err == nil {
			err = f(s, w, r)
		}
		if err == nil {
			return
		}
		e, ok := errors.AsType[*httpError](err)
		if !ok {
			h.log.Error("request failed", "path", r.URL.Path, "err", err)
			e = &httpError{http.StatusInternalServerError, stmtError{"internal error; the node's log has the cause", codeInternal}}
		}
		writeError(w, e)
	}
}

// admit asks what whoever makes r may see. Errors: *httpError, others.
func (s *session) admit(r *http.Request) (err error) {
	s.access, err = s.h.opts.Authorize(r)
	if e, ok := errors.AsType[*RefusalError](err); ok {
		return refuse(e.Status, e.Code, e.Message)
	}
	if err == nil && s.access == AccessNone {
		return refuse(http.StatusUnauthorized, "UNAUTHORIZED", "a token that may view is needed: Authorization: Bearer …")
	}
	return err
}

// decode reads the body of a request into v.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return refuse(http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE", "a request may have 1 MiB")
	}
	if err != nil {
		return refuse(http.StatusBadRequest, codeProtocol, "the body could not be read")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return refuse(http.StatusBadRequest, codeProtocol, "the body is not a request of Hrana: "+clip(err.Error()))
	}
	return nil
}
