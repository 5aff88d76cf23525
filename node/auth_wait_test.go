package node_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

// meddled is a queue in which something happens at certain moments.
type meddled struct {
	*queue.Queue
	waits chan struct{} // gets one for each claim and wait that comes to the queue
	line  func()        // is called with each job of an export
	alter func()        // is called once a token was made or revoked
	// missed: a caller who goes just then is not told of the outcome.
	missed bool
}

func (m *meddled) CreateAccessToken(ctx context.Context, t queue.AccessToken) (queue.AccessToken, queue.Seq, error) {
	made, seq, err := m.Queue.CreateAccessToken(ctx, t)
	return made, seq, m.altered(ctx, err)
}

func (m *meddled) RevokeAccessToken(ctx context.Context, id int64) (queue.Seq, error) {
	seq, err := m.Queue.RevokeAccessToken(ctx, id)
	return seq, m.altered(ctx, err)
}

// altered is what a call returns whose caller may have gone meanwhile.
func (m *meddled) altered(ctx context.Context, err error) error {
	if m.alter != nil {
		m.alter()
	}
	if m.missed {
		return cmp.Or(err, ctx.Err())
	}
	return err
}

func (m *meddled) Claim(ctx context.Context, req queue.ClaimRequest) (queue.Claims, queue.Seq, error) {
	m.came()
	return m.Queue.Claim(ctx, req)
}

func (m *meddled) Wait(ctx context.Context, id int64, d time.Duration) (queue.Job, error) {
	m.came()
	return m.Queue.Wait(ctx, id, d)
}

func (m *meddled) came() {
	if m.waits != nil {
		m.waits <- struct{}{}
	}
}

func (m *meddled) Export(ctx context.Context) iter.Seq2[queue.Job, error] {
	return func(yield func(queue.Job, error) bool) {
		for job, err := range m.Queue.Export(ctx) {
			if m.line != nil {
				m.line()
			}
			if !yield(job, err) {
				return
			}
		}
	}
}

// meddle returns an API with an admin token over a queue that is meddled with.
func meddle(t *testing.T) (*fixture, *meddled) {
	t.Helper()
	f := over(t, nil)
	q, err := queue.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	m := &meddled{Queue: q}
	f.api = node.NewAPI(node.Config{AdminToken: adminSecret, Logger: slog.New(slog.NewTextHandler(f.log, nil))})
	f.api.Open(m)
	return f, m
}

// TestTokensThatEndWhileTheyWait: a request that was let in gets nothing any
// more once its token is worth nothing.
func TestTokensThatEndWhileTheyWait(t *testing.T) {
	t.Run("a claim gets no job, and the job goes to another", func(t *testing.T) {
		f, m := meddle(t)
		worker := f.token("worker", nil, "work")
		m.waits = make(chan struct{})
		answer := later(f, worker.Token, "POST", "/v1/claims", `{"queues":["mail"],"wait_ms":60000}`)
		<-m.waits
		asOK[client.Revoked](f, adminSecret, "DELETE", "/v1/tokens/"+worker.ID, "")
		asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"mail","payload":"PAYLOAD"}`)
		w := answer()
		if strings.Contains(w.Body.String(), "PAYLOAD") {
			t.Errorf("it got the payload: %s", w.Body)
		}
		wantError(t, w, 401, client.CodeUnauthorized, `"worker" is revoked`)
		m.waits = nil
		jobs := asOK[client.Claims](f, adminSecret, "POST", "/v1/claims", `{"queues":["mail"]}`).Jobs
		if len(jobs) != 1 || jobs[0].Attempt != 1 {
			t.Errorf("another gets %+v", jobs)
		}
	})
	t.Run("nor one whose token expires", func(t *testing.T) {
		f, m := meddle(t)
		worker := asOK[client.Token](f, adminSecret, "POST", "/v1/tokens", `{"name":"worker","scopes":["work"],"expires_in_ms":2000}`)
		m.waits = make(chan struct{})
		answer := later(f, worker.Token, "POST", "/v1/claims", `{"queues":["mail"],"wait_ms":60000}`)
		<-m.waits
		time.Sleep(time.Until(time.UnixMilli(*worker.ExpiresAtMS)))
		asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"mail"}`)
		wantError(t, answer(), 401, client.CodeUnauthorized, `"worker" has expired`)
	})
	t.Run("a wait for a job's end does not show it", func(t *testing.T) {
		f, m := meddle(t)
		viewer := f.token("viewer", nil, "view", "payload")
		job := asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"mail","payload":"PAYLOAD"}`)
		m.waits = make(chan struct{})
		answer := later(f, viewer.Token, "GET", "/v1/jobs/"+job.ID+"?wait_ms=60000", "")
		<-m.waits
		asOK[client.Revoked](f, adminSecret, "DELETE", "/v1/tokens/"+viewer.ID, "")
		asOK[client.Job](f, adminSecret, "POST", "/v1/jobs/"+job.ID+"/cancel", "")
		wantError(t, answer(), 401, client.CodeUnauthorized, `"viewer" is revoked`)
	})
	t.Run("an export is cut off", func(t *testing.T) {
		f, m := meddle(t)
		reader := f.token("reader", nil, "view", "payload")
		large, err := json.Marshal(strings.Repeat("x", 200<<10))
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"mail","payload":`+string(large)+`}`)
		}
		lines := 0
		m.line = func() {
			if lines++; lines == 4 { // two of them were sent
				asOK[client.Revoked](f, adminSecret, "DELETE", "/v1/tokens/"+reader.ID, "")
			}
		}
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("the answer looks whole: %v", err)
			}
			if lines > 5 {
				t.Errorf("it went on for %d jobs", lines)
			}
		}()
		f.as(reader.Token, "GET", "/v1/export", "")
	})
}

// TestTokensOfThoseWhoHangUp: whoever makes or revokes a token and goes before
// the answer leaves a node that knows its tokens as they are in the file.
func TestTokensOfThoseWhoHangUp(t *testing.T) {
	f, m := meddle(t)
	hangUp := func(method, path, body string) {
		ctx, cancel := context.WithCancel(t.Context())
		m.alter = cancel
		defer func() { m.alter = nil }()
		r := httptest.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+adminSecret)
		f.api.ServeHTTP(httptest.NewRecorder(), r)
	}
	worker := f.token("worker", nil, "view")
	t.Run("a token that was made locks nobody out", func(t *testing.T) {
		for _, m.missed = range []bool{false, true} {
			hangUp("POST", "/v1/tokens", fmt.Sprintf(`{"name":"another %v","scopes":["view"]}`, m.missed))
		}
		asOK[client.Queues](f, worker.Token, "GET", "/v1/queues", "")
	})
	t.Run("a token that was revoked is worth nothing, and the others are good", func(t *testing.T) {
		for _, m.missed = range []bool{false, true} {
			other := f.token("other", nil, "view")
			hangUp("DELETE", "/v1/tokens/"+other.ID, "")
			wantError(t, f.as(other.Token, "GET", "/v1/queues", ""), 401, client.CodeUnauthorized, `"other" is revoked`)
		}
		asOK[client.Queues](f, worker.Token, "GET", "/v1/queues", "")
	})
}

// later sends a request on the side. The function that it returns waits for the
// answer.
func later(f *fixture, token, method, path, body string) func() *httptest.ResponseRecorder {
	var w *httptest.ResponseRecorder
	var sending errgroup.Group
	sending.Go(func() error {
		w = f.as(token, method, path, body)
		return nil
	})
	return func() *httptest.ResponseRecorder {
		f.t.Helper()
		_ = sending.Wait() // of a function that returns none
		return w
	}
}
