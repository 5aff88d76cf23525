package hrana_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/node/hrana"
	"holdfast/queue"
)

func TestValues(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	for _, tt := range []struct{ outcome, sql, args, want string }{
		{"an integer is a string", "select 42", "", `{"type":"integer","value":"42"}`},
		{"a large integer keeps its digits", "select 9223372036854775807", "", `{"type":"integer","value":"9223372036854775807"}`},
		{"a float is a number", "select 1.5", "", `{"type":"float","value":1.5}`},
		{"infinity is null", "select 9e999", "", `{"type":"null"}`},
		{"null is null", "select null", "", `{"type":"null"}`},
		{"a text is escaped", `select 'a"b' || char(10) || 'ü'`, "", `{"type":"text","value":"a\"b\nü"}`},
		{"a blob has no padding", "select x'00ff10aa'", "", `{"type":"blob","base64":"AP8Qqg"}`},
		{"bytes that are no text are replaced", "select cast(x'41ff' as text)", "", `{"type":"text","value":"A\ufffd"}`},
		{"an integer argument", "select ?, typeof(?1)", `{"type":"integer","value":"9007199254740993"}`, `{"type":"integer","value":"9007199254740993"}`},
		{"a float argument", "select ?", `{"type":"float","value":2}`, `{"type":"float","value":2}`},
		{"a text argument", "select ?", `{"type":"text","value":"x"}`, `{"type":"text","value":"x"}`},
		{"a null argument", "select ?", `{"type":"null"}`, `{"type":"null"}`},
		{"a blob argument", "select ?", `{"type":"blob","base64":"AP8="}`, `{"type":"blob","base64":"AP8"}`},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			_, _, text := s.post("/v2/pipeline", `{"baton":null,"requests":[`+execute(tt.sql, tt.args)+`]}`)
			text = strings.ReplaceAll(text, "�", `\ufffd`)
			if !strings.Contains(text, `"rows":[[`+tt.want) {
				t.Errorf("got %s", text)
			}
		})
	}
	t.Run("named arguments are found with and without their prefix", func(t *testing.T) {
		body := `{"requests":[{"type":"execute","stmt":{"sql":"select :a || @b || $c","named_args":[
			{"name":"a","value":{"type":"text","value":"1"}},{"name":"@b","value":{"type":"text","value":"2"}},{"name":"c","value":{"type":"text","value":"3"}}]}}]}`
		if _, _, text := s.post("/v2/pipeline", body); !strings.Contains(text, `"value":"123"`) {
			t.Errorf("got %s", text)
		}
	})
	t.Run("arrays are never null, and declared types are given", func(t *testing.T) {
		_, _, text := s.post("/v2/pipeline", `{"requests":[`+execute("select id, state, 1 + 1 as two from jobs where 0")+`]}`)
		want := `"cols":[{"name":"id","decltype":"INTEGER"},{"name":"state","decltype":"INTEGER"},{"name":"two","decltype":null}],"rows":[],"affected_row_count":0,"last_insert_rowid":null`
		if !strings.Contains(text, want) || !strings.HasPrefix(text, `{"baton":null,"base_url":null,"results":[{"type":"ok"`) {
			t.Errorf("got %s", text)
		}
	})
	t.Run("every integer of the views fits into a number of JavaScript", func(t *testing.T) {
		for _, view := range []string{"queue_health", "jobs_recent", "dead_letters", "throughput", "node_status"} {
			for _, row := range s.rows("select * from " + view) {
				for _, v := range row {
					if text, _ := v.Value.(string); v.Type == "integer" && len(text) > 15 {
						t.Errorf("%s has %s", view, text)
					}
				}
			}
		}
	})
}

func TestHTTP(t *testing.T) {
	d := newDatabase(t)
	src := newSource(t, d.path)
	now := src.asOf.Add(1500 * time.Millisecond)
	s := newServer(t, hrana.Options{
		Source: src, Version: "1.2.3", Now: func() time.Time { return now }, Origins: []string{"https://app.example"},
		Authorize: byToken(map[string]hrana.Access{"viewer": hrana.AccessView, "all": hrana.AccessPayload}),
	})
	do := func(method, path, body string, header ...string) (status int, head http.Header, text string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(raw)
	}
	const one = `{"requests":[{"type":"execute","stmt":{"sql":"select 1"}}]}`
	bearer := []string{"Authorization", "Bearer viewer"}
	for _, tt := range []struct {
		outcome, method, path, body string
		header                      []string
		status                      int
		code                        string
	}{
		{"v2 is spoken", "GET", "/v2", "", nil, 200, ""},
		{"v3 is spoken", "GET", "/v3", "", nil, 200, ""},
		{"protobuf is not", "GET", "/v3-protobuf", "", bearer, 404, "NOT_FOUND"},
		{"nor is its pipeline", "POST", "/v3-protobuf/pipeline", "", bearer, 404, "NOT_FOUND"},
		{"health", "GET", "/health", "", nil, 200, ""},
		{"version", "GET", "/version", "", nil, 200, ""},
		{"a viewer may ask", "POST", "/v2/pipeline", one, bearer, 200, ""},
		{"no token", "POST", "/v2/pipeline", one, nil, 401, "UNAUTHORIZED"},
		{"a wrong token", "POST", "/v3/pipeline", one, []string{"Authorization", "Bearer x"}, 401, "UNAUTHORIZED"},
		{"no token for a cursor", "POST", "/v3/cursor", one, nil, 401, "UNAUTHORIZED"},
		{"no JSON", "POST", "/v2/pipeline", "{", bearer, 400, "PROTOCOL_ERROR"},
		{"an unknown request", "POST", "/v2/pipeline", `{"requests":[{"type":"x"}]}`, bearer, 400, "PROTOCOL_ERROR"},
		{"an unknown value", "POST", "/v2/pipeline", `{"requests":[{"type":"execute","stmt":{"sql":"select ?","args":[{"type":"x"}]}}]}`, bearer, 400, "PROTOCOL_ERROR"},
		{"a baton of somebody else", "POST", "/v2/pipeline", `{"baton":"e30.e30","requests":[]}`, bearer, 400, "BATON_INVALID"},
		{"a page of another origin", "POST", "/v2/pipeline", one, append([]string{"Origin", "https://evil.example"}, bearer...), 403, "ORIGIN_REFUSED"},
		{"its preflight", "OPTIONS", "/v2/pipeline", "", []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, 403, "ORIGIN_REFUSED"},
		{"an allowed page", "POST", "/v2/pipeline", one, append([]string{"Origin", "https://app.example"}, bearer...), 200, ""},
		{"its preflight without a token", "OPTIONS", "/v3/cursor", "", []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}, 204, ""},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			status, head, text := do(tt.method, tt.path, tt.body, tt.header...)
			if status != tt.status {
				t.Fatalf("got %d, %s", status, text)
			}
			var e struct{ Message, Code, Error string }
			if tt.code == "" {
				return
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil || e.Code != tt.code || e.Message == "" || e.Message != e.Error {
				t.Errorf("got %s", text)
			}
			if got := head.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
		})
	}
	t.Run("the answer says where the snapshot stands", func(t *testing.T) {
		_, head, _ := do("POST", "/v2/pipeline", one, bearer...)
		if head.Get("Holdfast-Seq") != "1.8" || head.Get("Holdfast-As-Of") != "1700000000000" || head.Get("Holdfast-Lag-Ms") != "1500" {
			t.Errorf("got %v", head)
		}
		_, _, text := do("POST", "/v2/pipeline", strings.Replace(one, "select 1", "select as_of_ms()", 1), bearer...)
		if !strings.Contains(text, `"value":"1700000000000"`) {
			t.Errorf("as_of_ms(): %s", text)
		}
	})
	t.Run("an allowed page may read the answer and send its headers", func(t *testing.T) {
		_, head, _ := do("OPTIONS", "/v2/pipeline", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
		allowed := head.Get("Access-Control-Allow-Headers")
		if head.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(allowed, "authorization") || !strings.Contains(allowed, "x-libsql-client-version") {
			t.Errorf("got %v", head)
		}
	})
	t.Run("the payload scope sees what jobs carry", func(t *testing.T) {
		body := `{"requests":[` + execute("select payload, result from job union all select cast(key as text), null from keys") + `]}`
		_, _, text := do("POST", "/v2/pipeline", body, "Authorization", "Bearer all")
		for _, secret := range []string{secretPayload, secretLarge, secretResult, secretKey} {
			if !strings.Contains(text, secret) {
				t.Errorf("%s is missing", secret)
			}
			if _, _, hidden := do("POST", "/v2/pipeline", body, bearer...); strings.Contains(hidden, secret) {
				t.Errorf("a viewer sees %s", secret)
			}
		}
		_, _, text = do("POST", "/v2/pipeline", `{"requests":[`+execute("select v from meta where k like '%key'")+`]}`, "Authorization", "Bearer all")
		if strings.Contains(text, "blob") {
			t.Errorf("it sees the node's keys: %s", text)
		}
	})
	if held := src.held.Load(); held != 0 {
		t.Errorf("%d snapshots were not released", held)
	}
}

func TestOneSnapshot(t *testing.T) {
	d := newDatabase(t)
	src := newSource(t, d.path)
	s := newServer(t, hrana.Options{Source: src})
	count := execute("select queued from queue_health where queue = 'thumbs'")
	before := s.pipeline(nil, count).Results[0].Response.Result.Rows[0][0].Value
	if _, _, err := d.queue.Enqueue(t.Context(), queue.Spec{Queue: "thumbs"}); err != nil {
		t.Fatal(err)
	}
	after := s.pipeline(nil, count, count)
	a, b := after.Results[0].Response.Result.Rows[0][0].Value, after.Results[1].Response.Result.Rows[0][0].Value
	if before != "1" || a != "2" || b != "2" {
		t.Errorf("got %v, then %v and %v", before, a, b)
	}
}
