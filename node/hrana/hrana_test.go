package hrana_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/node/hrana"
	"holdfast/queue"
)

// The secrets that a statement without the payload scope must never see.
const (
	secretPayload = "SECRET-PAYLOAD"
	secretLarge   = "SECRET-LARGE"
	secretResult  = "SECRET-RESULT"
	secretKey     = "SECRET-KEY"
)

// database is a queue's file with a job of each kind.
type database struct {
	dir, path string
	queue     *queue.Queue
}

func newDatabase(t testing.TB) *database {
	t.Helper()
	dir := t.TempDir()
	d := &database{dir: dir, path: filepath.Join(dir, "queue.db")}
	q, err := queue.Open(t.Context(), d.path, queue.Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	d.queue = q
	t.Cleanup(func() { _ = q.Close() })
	d.fill(t)
	return d
}

func (d *database) fill(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	large := `"` + secretLarge + string(bytes.Repeat([]byte("x"), 400)) + `"`
	for _, spec := range []queue.Spec{
		{Queue: "mail", Type: "welcome", Payload: []byte(`"` + secretPayload + `"`), IdempotencyKey: secretKey, MaxAttempts: 1, Priority: 3},
		{Queue: "mail", Type: "welcome", Payload: []byte(large), Priority: 2},
		{Queue: "mail", Type: "welcome"},
		{Queue: "mail", Type: "news"},
		{Queue: "thumbs"},
	} {
		if _, _, err := d.queue.Enqueue(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	claims, _, err := d.queue.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}, Max: 3, Worker: "w:1:a"})
	if err != nil || len(claims.Jobs) != 3 {
		t.Fatalf("claimed %d, %v", len(claims.Jobs), err)
	}
	if _, _, err := d.queue.Fail(ctx, []queue.Fail{{Lease: claims.Jobs[0].Lease, Error: "smtp 451"}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.queue.Ack(ctx, []queue.Ack{{Lease: claims.Jobs[1].Lease, Result: []byte(`"` + secretResult + `"`)}}); err != nil {
		t.Fatal(err)
	}
}

// source hands out one database.
type source struct {
	db   *sql.DB
	asOf time.Time
	held atomic.Int64 // Acquire minus Release
}

func (s *source) Acquire(context.Context) (hrana.Snapshot, error) {
	s.held.Add(1)
	return hrana.Snapshot{DB: s.db, AsOf: s.asOf, Release: func() { s.held.Add(-1) }}, nil
}

func newSource(t testing.TB, path string) *source {
	t.Helper()
	driver, err := hrana.NewDriver()
	if err != nil {
		t.Fatal(err)
	}
	db := driver.Open("file:" + path + "?mode=ro")
	t.Cleanup(func() { _ = db.Close() })
	return &source{db: db, asOf: time.UnixMilli(1_700_000_000_000)}
}

// server is a handler that listens.
type server struct {
	t   testing.TB
	url string
}

func newServer(t testing.TB, opts hrana.Options) *server {
	t.Helper()
	srv := httptest.NewServer(hrana.New(opts))
	t.Cleanup(srv.Close)
	return &server{t, srv.URL}
}

// viewer returns a server on a new database, and it.
func viewer(t testing.TB, access hrana.Access) (*server, *database) {
	t.Helper()
	d := newDatabase(t)
	return newServer(t, hrana.Options{
		Source:    newSource(t, d.path),
		Authorize: func(*http.Request) (hrana.Access, error) { return access, nil },
	}), d
}

// byToken lets in whoever has one of the tokens.
func byToken(known map[string]hrana.Access) func(*http.Request) (hrana.Access, error) {
	return func(r *http.Request) (hrana.Access, error) {
		return known[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")], nil
	}
}

// post sends a body and returns the answer, whatever it is.
func (s *server) post(path, body string) (status int, header http.Header, answer string) {
	s.t.Helper()
	resp, err := http.Post(s.url+path, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

type answerError struct {
	Message, Code string
}

type answerValue struct {
	Type   string
	Value  any
	Base64 *string
}

type answerResult struct {
	Cols []struct {
		Name     string
		Decltype *string
	}
	Rows        [][]answerValue
	StepResults []*answerResult `json:"step_results"`
	StepErrors  []*answerError  `json:"step_errors"`
}

type answer struct {
	Baton   *string
	Results []struct {
		Type     string
		Error    *answerError
		Response struct {
			Type         string
			Result       *answerResult
			IsAutocommit *bool `json:"is_autocommit"`
		}
	}
}

// pipeline sends requests, JSON texts, with a baton that may be nil.
func (s *server) pipeline(baton *string, requests ...string) answer {
	s.t.Helper()
	raw := make([]json.RawMessage, len(requests))
	for i, r := range requests {
		raw[i] = json.RawMessage(r)
	}
	body, err := json.Marshal(map[string]any{"baton": baton, "requests": raw})
	if err != nil {
		s.t.Fatal(err)
	}
	status, _, text := s.post("/v3/pipeline", string(body))
	if status != http.StatusOK {
		s.t.Fatalf("HTTP %d: %s", status, text)
	}
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		s.t.Fatalf("%v in %s", err, text)
	}
	if len(a.Results) != len(requests) {
		s.t.Fatalf("%d results of %d requests", len(a.Results), len(requests))
	}
	return a
}

// execute is the request to run one statement.
func execute(sql string, args ...string) string {
	text, _ := json.Marshal(sql) // a string
	list := "[]"
	if len(args) > 0 {
		list = "[" + args[0] + "]"
	}
	return fmt.Sprintf(`{"type":"execute","stmt":{"sql":%s,"args":%s}}`, text, list)
}

// query runs one statement, and returns its rows or its error.
func (s *server) query(sql string, args ...string) (*answerResult, *answerError) {
	s.t.Helper()
	r := s.pipeline(nil, execute(sql, args...)).Results[0]
	return r.Response.Result, r.Error
}

// rows runs one statement that must succeed.
func (s *server) rows(sql string, args ...string) [][]answerValue {
	s.t.Helper()
	result, failed := s.query(sql, args...)
	if failed != nil {
		s.t.Fatalf("%s: %+v", sql, failed)
	}
	return result.Rows
}
