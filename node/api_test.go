package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

const base = "http://127.0.0.1:7780"

// fixture is the API over a store, called without a network.
type fixture struct {
	t    *testing.T
	api  *node.API
	log  *bytes.Buffer
	real bool // over a queue, not a stub
}

// over returns the API over s; without a store it is as before the opening.
func over(t *testing.T, s node.Store) *fixture {
	t.Helper()
	f := &fixture{t: t, log: &bytes.Buffer{}}
	f.api = node.NewAPI(node.Config{Version: "1.2.3", Commit: "abc", Logger: slog.New(slog.NewTextHandler(f.log, nil))})
	if s != nil {
		f.api.Open(s)
	}
	return f
}

// overQueue returns the API over a new queue.
func overQueue(t *testing.T) *fixture {
	t.Helper()
	q, err := queue.Open(context.Background(), filepath.Join(t.TempDir(), "holdfast.db"), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	f := over(t, q)
	f.real = true
	return f
}

// send sends a request as curl would.
func (f *fixture) send(method, path, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	return f.serve(httptest.NewRequest(method, base+path, r))
}

func (f *fixture) serve(r *http.Request) *httptest.ResponseRecorder {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, r)
	if f.real { // whatever a test asks for, it is answered as the document says
		if err := theContract(f.t).answer(r, w.Code, w.Header(), w.Body.Bytes()); err != nil {
			f.t.Error(err)
		}
	}
	return w
}

// call sends a request that must have the status, and decodes its answer.
func call[T any](f *fixture, status int, method, path, body string) T {
	f.t.Helper()
	w := f.send(method, path, body)
	if w.Code != status {
		f.t.Fatalf("%s %s: got status %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	return answerOf[T](f.t, w)
}

func answerOf[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("answer: %v", err)
	}
	if got, want := w.Header().Get("Content-Type"), "application/json"; got != want {
		t.Errorf("content type: got %q, want %q", got, want)
	}
	return v
}

// wantError checks a whole error answer.
func wantError(t *testing.T, w *httptest.ResponseRecorder, status int, code client.Code, part string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status: got %d, want %d: %s", w.Code, status, w.Body)
	}
	e := answerOf[client.ErrorAnswer](t, w).Error
	if e.Code != code {
		t.Errorf("code: got %q, want %q (%s)", e.Code, code, e.Message)
	}
	if !strings.Contains(e.Message, part) {
		t.Errorf("message: got %q, want it to contain %q", e.Message, part)
	}
}

// stub is a store of which a test sets what it needs. It is for what a real
// queue does only by accident.
type stub struct {
	node.Store
	enqueue func(specs []queue.Spec) ([]queue.Enqueued, error)
	claim   func(ctx context.Context, req queue.ClaimRequest) (queue.Claims, error)
	job     func(id int64) (queue.Job, error)
	ack     func(acks []queue.Ack) ([]queue.Result, error)
	release func(ctx context.Context, leases []string) ([]queue.Result, error)
	jobs    func(f queue.Filter) (queue.Page, error)
}

var stubSeq = queue.Seq{Epoch: 3, N: 14}

func (s *stub) Seq() queue.Seq { return stubSeq }

func (s *stub) Enqueue(_ context.Context, specs ...queue.Spec) ([]queue.Enqueued, queue.Seq, error) {
	enqueued, err := s.enqueue(specs)
	return enqueued, stubSeq, err
}

func (s *stub) Claim(ctx context.Context, req queue.ClaimRequest) (queue.Claims, queue.Seq, error) {
	claims, err := s.claim(ctx, req)
	return claims, stubSeq, err
}

func (s *stub) Job(_ context.Context, id int64) (queue.Job, error) { return s.job(id) }

func (s *stub) Wait(_ context.Context, id int64, _ time.Duration) (queue.Job, error) {
	return s.job(id)
}

func (s *stub) Queues(context.Context) ([]queue.Info, error) { return nil, nil }

func (s *stub) Jobs(_ context.Context, f queue.Filter) (queue.Page, error) { return s.jobs(f) }

func (s *stub) Ack(_ context.Context, acks []queue.Ack) ([]queue.Result, queue.Seq, error) {
	results, err := s.ack(acks)
	return results, stubSeq, err
}

func (s *stub) Release(ctx context.Context, leases []string) ([]queue.Result, queue.Seq, error) {
	results, err := s.release(ctx, leases)
	return results, stubSeq, err
}

func TestPathsAndMethods(t *testing.T) {
	f := over(t, &stub{})
	for _, path := range []string{"/nothing", "/v1", "/v1/", "/v1/job", "/v1/jobs/7/eat", "/v2/jobs", "/metrics/x"} {
		t.Run("unknown path "+path+" is not found", func(t *testing.T) {
			wantError(t, f.send("GET", path, ""), http.StatusNotFound, client.CodeNotFound, "no such path")
		})
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/jobs", "GET, HEAD, POST"},
		{"POST", "/v1/jobs/7", "DELETE, GET, HEAD"},
		{"GET", "/v1/jobs/7/ack", "POST"},
		{"GET", "/v1/claims", "POST"},
		{"PUT", "/v1/queues", "GET, HEAD"},
		{"POST", "/healthz", "GET, HEAD"},
	} {
		t.Run(tt.method+" "+tt.path+" is not allowed", func(t *testing.T) {
			w := f.send(tt.method, tt.path, "")
			if got := w.Header().Get("Allow"); got != tt.allow {
				t.Errorf("Allow: got %q, want %q", got, tt.allow)
			}
			wantError(t, w, http.StatusMethodNotAllowed, client.CodeMethodNotAllowed, "use "+tt.allow)
		})
	}
}

func TestBeforeTheQueueIsOpen(t *testing.T) {
	f := over(t, nil)
	t.Run("the process lives", func(t *testing.T) {
		if w := f.send("GET", "/healthz", ""); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
			t.Errorf("got %d %q", w.Code, w.Body)
		}
	})
	t.Run("it is not ready and says why", func(t *testing.T) {
		ready := call[client.Ready](f, http.StatusServiceUnavailable, "GET", "/readyz", "")
		if ready.Ready || len(ready.Reasons) != 1 || !strings.Contains(ready.Reasons[0], "being opened") {
			t.Errorf("got %+v", ready)
		}
	})
	for _, path := range []string{"/v1/jobs", "/v1/jobs/7", "/v1/queues", "/v1/health"} {
		t.Run(path+" is unavailable", func(t *testing.T) {
			w := f.send("GET", path, "")
			if got := w.Header().Get("Retry-After"); got != "1" {
				t.Errorf("Retry-After: got %q, want 1", got)
			}
			wantError(t, w, http.StatusServiceUnavailable, client.CodeUnavailable, "starting")
		})
	}
}

func TestReadiness(t *testing.T) {
	f := over(t, &stub{})
	if ready := call[client.Ready](f, http.StatusOK, "GET", "/readyz", ""); !ready.Ready || len(ready.Reasons) != 0 {
		t.Errorf("open: got %+v", ready)
	}
	f.api.Stop()
	if ready := call[client.Ready](f, http.StatusServiceUnavailable, "GET", "/readyz", ""); ready.Ready || ready.Reasons[0] != "the node is stopping" {
		t.Errorf("stopping: got %+v", ready)
	}
}

func TestVersion(t *testing.T) {
	got := call[client.Version](over(t, nil), http.StatusOK, "GET", "/version", "")
	if got.Version != "1.2.3" || got.Commit != "abc" || got.SQLite == "" || got.Schema < 1 || !strings.HasPrefix(got.Go, "go") {
		t.Errorf("got %+v", got)
	}
}

func decodeInto(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
