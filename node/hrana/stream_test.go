package hrana_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/node/hrana"
)

const autocommit = `{"type":"get_autocommit"}`

func TestStream(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	t.Run("without state there is no baton", func(t *testing.T) {
		if a := s.pipeline(nil, execute("select 1"), autocommit); a.Baton != nil || !*a.Results[1].Response.IsAutocommit {
			t.Errorf("got %+v", a)
		}
		if a := s.pipeline(nil, execute("begin"), execute("select 1"), execute("commit")); a.Baton != nil {
			t.Errorf("after a transaction: %v", *a.Baton)
		}
	})
	t.Run("a transaction goes on with its baton", func(t *testing.T) {
		a := s.pipeline(nil, execute("begin immediate"), autocommit)
		if a.Baton == nil || *a.Results[1].Response.IsAutocommit {
			t.Fatalf("got %+v", a)
		}
		b := s.pipeline(a.Baton, execute("select 1"), execute("begin"), execute("savepoint a"), execute("rollback to a"), execute("commit"), execute("commit"), autocommit)
		for i, code := range []string{"", "SQLITE_ERROR", "", "", "", "SQLITE_ERROR"} {
			if e := b.Results[i].Error; (e == nil) != (code == "") || e != nil && e.Code != code {
				t.Errorf("request %d: %+v", i, e)
			}
		}
		if b.Baton != nil || !*b.Results[6].Response.IsAutocommit {
			t.Errorf("got %+v", b)
		}
	})
	t.Run("a closed stream is closed", func(t *testing.T) {
		a := s.pipeline(nil, execute("begin"), `{"type":"close"}`, execute("select 1"))
		if a.Baton != nil || a.Results[1].Error != nil || a.Results[2].Error == nil || a.Results[2].Error.Code != "STREAM_CLOSED" {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("stored SQL is found again", func(t *testing.T) {
		a := s.pipeline(nil, `{"type":"store_sql","sql_id":7,"sql":"select 'stored'"}`)
		byID := `{"type":"execute","stmt":{"sql_id":7}}`
		b := s.pipeline(a.Baton, byID, `{"type":"close_sql","sql_id":7}`, byID)
		if b.Results[0].Response.Result.Rows[0][0].Value != "stored" || b.Results[2].Error == nil || b.Results[2].Error.Code != "SQL_NOT_FOUND" || b.Baton != nil {
			t.Errorf("got %+v", b)
		}
		if e := s.pipeline(nil, `{"type":"store_sql","sql_id":1,"sql":"`+strings.Repeat("x", 70_000)+`"}`).Results[0].Error; e == nil || e.Code != "SQL_STORE_TOO_LARGE" {
			t.Errorf("too much: %+v", e)
		}
	})
	t.Run("a sequence stops at its first error", func(t *testing.T) {
		a := s.pipeline(nil, `{"type":"sequence","sql":"begin; select 1; select nothing; commit"}`, autocommit)
		if e := a.Results[0].Error; e == nil || e.Code != "SQLITE_ERROR" || *a.Results[1].Response.IsAutocommit {
			t.Errorf("got %+v", a)
		}
	})
}

func TestBatch(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	step := func(sql, condition string) string {
		return fmt.Sprintf(`{"stmt":{"sql":%q},"condition":%s}`, sql, condition)
	}
	body := `{"steps":[` + strings.Join([]string{
		step("begin", "null"),
		step("select 1", `{"type":"ok","step":0}`),
		step("select nothing", `{"type":"ok","step":1}`),
		step("select 3", `{"type":"ok","step":2}`),
		step("select 4", `{"type":"and","conds":[{"type":"error","step":2},{"type":"not","cond":{"type":"is_autocommit"}}]}`),
		step("commit", `{"type":"or","conds":[{"type":"ok","step":3}]}`),
		step("rollback", `{"type":"not","cond":{"type":"ok","step":5}}`),
		step("select 7", `{"type":"is_autocommit"}`),
	}, ",") + `]}`
	t.Run("steps run by their conditions", func(t *testing.T) {
		a := s.pipeline(nil, `{"type":"batch","batch":`+body+`}`)
		r := a.Results[0].Response.Result
		ran := ""
		for i := range r.StepResults {
			switch {
			case r.StepResults[i] != nil:
				ran += "+"
			case r.StepErrors[i] != nil:
				ran += "!"
			default:
				ran += "-"
			}
		}
		if ran != "++!-+-++" || a.Baton != nil {
			t.Errorf("got %s, baton %v", ran, a.Baton)
		}
	})
	t.Run("a condition on a later step is refused", func(t *testing.T) {
		e := s.pipeline(nil, `{"type":"batch","batch":{"steps":[`+step("select 1", `{"type":"ok","step":0}`)+`]}}`).Results[0].Error
		if e == nil || e.Code != "PROTOCOL_ERROR" {
			t.Errorf("got %+v", e)
		}
	})
	t.Run("a cursor gives it line by line", func(t *testing.T) {
		status, _, text := s.post("/v3/cursor", `{"baton":null,"batch":`+body+`}`)
		var types []string
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			var line struct{ Type string }
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			types = append(types, line.Type)
		}
		want := " step_begin step_end step_begin row step_end step_error step_begin row step_end step_begin step_end step_begin row step_end"
		if got := strings.Join(types, " "); status != http.StatusOK || got != want || !strings.HasPrefix(text, `{"baton":null,"base_url":null}`+"\n") {
			t.Errorf("got %d, %s", status, text)
		}
	})
}

func TestDescribe(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	for _, tt := range []struct{ outcome, sql, want string }{
		{
			"a statement tells its parameters and columns", "select id, payload as p from jobs where id = ?2 or id = :x",
			`{"params":[{"name":null},{"name":"?2"},{"name":":x"}],"cols":[{"name":"id","decltype":"INTEGER"},{"name":"p","decltype":null}],"is_explain":false,"is_readonly":true}`,
		},
		{"an explain is one", "explain select 1", `"is_explain":true`},
		{"a transaction does not begin", "begin", `{"params":[],"cols":[],"is_explain":false,"is_readonly":true}`},
		{"a write is refused", "delete from jobs", `"code":"SQLITE_READONLY"`},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			status, _, text := s.post("/v3/pipeline", fmt.Sprintf(`{"requests":[{"type":"describe","sql":%q}]}`, tt.sql))
			if status != http.StatusOK || !strings.Contains(text, tt.want) || !strings.HasPrefix(text, `{"baton":null`) {
				t.Errorf("got %d, %s", status, text)
			}
		})
	}
}

// TestBaton moves a transaction between two nodes that know nothing of each
// other but share a database.
func TestBaton(t *testing.T) {
	d := newDatabase(t)
	now := time.Now()
	node := func() *server {
		return newServer(t, hrana.Options{Source: newSource(t, d.path), Now: func() time.Time { return now }})
	}
	first := node()
	begun := first.pipeline(nil, execute("begin"), execute("select 1"))
	if begun.Baton == nil {
		t.Fatal("no baton")
	}
	t.Run("another node of the database commits", func(t *testing.T) {
		a := node().pipeline(begun.Baton, execute("commit"), autocommit)
		if a.Results[0].Error != nil || !*a.Results[1].Response.IsAutocommit || a.Baton != nil {
			t.Errorf("got %+v", a)
		}
	})
	refused := func(t *testing.T, s *server, baton, code string) {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"baton": baton, "requests": []any{}}) // strings
		status, _, text := s.post("/v2/pipeline", string(body))
		if status != http.StatusBadRequest || !strings.Contains(text, code) {
			t.Errorf("got %d, %s", status, text)
		}
	}
	t.Run("a node of another database refuses it", func(t *testing.T) {
		other := newServer(t, hrana.Options{Source: newSource(t, newDatabase(t).path)})
		refused(t, other, *begun.Baton, "BATON_INVALID")
	})
	t.Run("one that was changed is refused", func(t *testing.T) {
		b := []byte(*begun.Baton)
		for i := range b {
			was := b[i]
			if b[i] = 'A'; was == 'A' {
				b[i] = 'B'
			}
			if i < len(b)-1 { // the last character has bits that mean nothing
				refused(t, first, string(b), "BATON_INVALID")
			}
			b[i] = was
		}
	})
	t.Run("an old one is refused", func(t *testing.T) {
		now = now.Add(6 * time.Minute)
		refused(t, first, *begun.Baton, "STREAM_EXPIRED")
	})
}
