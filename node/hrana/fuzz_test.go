package hrana_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/node/hrana"
)

// fuzzed returns a handler, and a function that sends a body and checks that
// the answer is one.
func fuzzed(f *testing.F) func(t *testing.T, path string, body io.Reader) {
	d := newDatabase(f)
	h := hrana.New(hrana.Options{Source: newSource(f, d.path)})
	return func(t *testing.T, path string, body io.Reader) {
		t.Helper()
		w := httptest.NewRecorder()
		begun := time.Now()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body))
		text := w.Body.String()
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge {
			t.Fatalf("%d: %s", w.Code, text)
		}
		if strings.Contains(text, "SECRET-") || strings.Contains(text, `"INTERNAL"`) {
			t.Fatalf("got %s", text)
		}
		if took := time.Since(begun); took > queryTime+slack {
			t.Fatalf("it took %s", took)
		}
		dec := json.NewDecoder(strings.NewReader(text))
		for {
			var line json.RawMessage
			if err := dec.Decode(&line); err == io.EOF {
				return
			} else if err != nil {
				t.Fatalf("%v in %s", err, text)
			}
		}
	}
}

func FuzzPipeline(f *testing.F) {
	for _, s := range []string{
		`{"baton":null,"requests":[{"type":"execute","stmt":{"sql":"select ?, :a","args":[{"type":"integer","value":"1"}],"named_args":[],"want_rows":true}}]}`,
		`{"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"begin"}},{"condition":{"type":"and","conds":[{"type":"ok","step":0}]},"stmt":{"sql":"commit"}}]}}]}`,
		`{"requests":[{"type":"sequence","sql":"begin; select * from job; rollback"},{"type":"describe","sql":"select payload from jobs where id = $a"}]}`,
		`{"requests":[{"type":"store_sql","sql_id":1,"sql":"select 1"},{"type":"execute","stmt":{"sql_id":1}},{"type":"close_sql","sql_id":1},{"type":"get_autocommit"},{"type":"close"}]}`,
		`{"batch":{"steps":[{"stmt":{"sql":"select * from keys"}},{"stmt":{"sql":"select 1"},"condition":{"type":"is_autocommit"}}]}}`,
	} {
		f.Add(s)
	}
	send := fuzzed(f)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v2/pipeline", "/v3/pipeline", "/v3/cursor"} {
			send(t, path, strings.NewReader(body))
		}
	})
}

// FuzzSQL sends any SQL: whatever it is, nothing hidden is in the answer.
func FuzzSQL(f *testing.F) {
	for _, statements := range hostile {
		for _, sql := range statements {
			if len(sql) < 500 {
				f.Add(sql)
			}
		}
	}
	send := fuzzed(f)
	f.Fuzz(func(t *testing.T, sql string) {
		if strings.Contains(sql, "SECRET") || strings.Contains(sql, "INTERNAL") {
			return
		}
		text, err := json.Marshal(sql)
		if err != nil {
			t.Fatal(err)
		}
		send(t, "/v3/pipeline", strings.NewReader(`{"requests":[{"type":"execute","stmt":{"sql":`+string(text)+`}},{"type":"close"}]}`))
	})
}

func FuzzBaton(f *testing.F) {
	for _, s := range []string{"", "a.b", "e30.e30", "e30.", ".", "eyJ0IjoxfQ.AAAA", strings.Repeat("A", 1000) + "." + strings.Repeat("B", 43)} {
		f.Add(s)
	}
	send := fuzzed(f)
	f.Fuzz(func(t *testing.T, baton string) {
		body, err := json.Marshal(map[string]any{"baton": baton, "requests": []any{map[string]any{"type": "get_autocommit"}}})
		if err != nil {
			t.Fatal(err)
		}
		send(t, "/v3/pipeline", strings.NewReader(string(body)))
	})
}
