package node_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

const adminSecret = "an-admin-token-of-more-than-32-characters"

// secured is the API over a new queue, with an admin token.
func secured(t *testing.T) *fixture {
	t.Helper()
	return securedWith(t, node.Config{AdminToken: adminSecret})
}

func securedWith(t *testing.T, cfg node.Config) *fixture {
	t.Helper()
	f := overQueue(t) // for its queue, which it closes
	cfg.Logger = slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	q, err := queue.Open(t.Context(), filepath.Join(t.TempDir(), "holdfast.db"), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	f.api = node.NewAPI(cfg)
	f.api.Open(q)
	return f
}

// as sends a request with a token; an empty one sends none.
func (f *fixture) as(token, method, path, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	return f.from("192.0.2.1:1234", token, method, path, body)
}

func (f *fixture) from(remote, token, method, path, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "https://jobs.example.com"+path, reader)
	r.RemoteAddr = remote
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, r)
	return w
}

// asOK is as for a request that must succeed.
func asOK[T any](f *fixture, token, method, path, body string) T {
	f.t.Helper()
	w := f.as(token, method, path, body)
	if w.Code/100 != 2 {
		f.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return answerOf[T](f.t, w)
}

// token makes a token.
func (f *fixture) token(name string, queues []string, scopes ...string) client.Token {
	f.t.Helper()
	body, err := json.Marshal(client.TokenRequest{Name: name, Scopes: scopes, Queues: queues})
	if err != nil {
		f.t.Fatal(err)
	}
	return asOK[client.Token](f, adminSecret, "POST", "/v1/tokens", string(body))
}

func TestTokens(t *testing.T) {
	f := secured(t)
	t.Run("a request without one is told how to send it", func(t *testing.T) {
		w := f.as("", "GET", "/v1/queues", "")
		if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="holdfast"` {
			t.Errorf("WWW-Authenticate: got %q", got)
		}
		if got := w.Header().Get("Holdfast-Seq"); got != "" {
			t.Errorf("the seq is told: %s", got)
		}
		wantError(t, w, http.StatusUnauthorized, client.CodeUnauthorized, "Authorization: Bearer")
	})
	t.Run("a wrong one is refused", func(t *testing.T) {
		w := f.as("hf_wrong", "GET", "/v1/queues", "")
		if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="holdfast", error="invalid_token"` {
			t.Errorf("WWW-Authenticate: got %q", got)
		}
		wantError(t, w, http.StatusUnauthorized, client.CodeUnauthorized, "not known")
	})
	t.Run("other forms of the header are refused", func(t *testing.T) {
		for _, header := range []string{"Bearer", "Bearer  ", adminSecret, "Basic " + adminSecret, "Bearer " + strings.Repeat("x", 2000)} {
			r := httptest.NewRequest("GET", base+"/v1/queues", nil)
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			f.api.ServeHTTP(w, r)
			wantError(t, w, http.StatusUnauthorized, client.CodeUnauthorized, "must be")
		}
	})
	t.Run("two of them are refused", func(t *testing.T) {
		r := httptest.NewRequest("GET", "https://jobs.example.com/v1/queues", nil)
		r.Header["Authorization"] = []string{"Bearer " + adminSecret, "Bearer hf_wrong"}
		w := httptest.NewRecorder()
		f.api.ServeHTTP(w, r)
		wantError(t, w, http.StatusUnauthorized, client.CodeUnauthorized, "more than once")
	})
	made := f.token("mailer", []string{"mail*"}, "enqueue")
	t.Run("the secret is shown once", func(t *testing.T) {
		if len(made.Token) < 40 || !strings.HasPrefix(made.Token, made.Prefix) || !strings.HasPrefix(made.Prefix, "hf_") || len(made.Prefix) > 12 {
			t.Errorf("got %+v", made)
		}
		w := f.as(adminSecret, "GET", "/v1/tokens", "")
		if strings.Contains(w.Body.String(), made.Token) {
			t.Errorf("the list has the secret: %s", w.Body)
		}
		list := answerOf[client.Tokens](t, w).Tokens
		if len(list) != 1 || list[0].Name != "mailer" || list[0].Prefix != made.Prefix || list[0].RevokedAtMS != nil ||
			!slices.Equal(list[0].Scopes, []string{"enqueue"}) || !slices.Equal(list[0].Queues, []string{"mail*"}) {
			t.Errorf("got %+v", list)
		}
	})
	t.Run("it is good for its queues", func(t *testing.T) {
		for _, name := range []string{"mail", "mail.bulk"} {
			asOK[client.Enqueued](f, made.Token, "POST", "/v1/jobs", `{"queue":"`+name+`"}`)
		}
		wantError(t, f.as(made.Token, "POST", "/v1/jobs", `[{"queue":"mail"},{"queue":"reports"}]`), 403, client.CodeForbidden, `not for the queue "reports"; its queues are mail*`)
		if n := asOK[client.Queues](f, adminSecret, "GET", "/v1/queues", "").Queues; len(n) != 2 || n[0].Counts.Queued != 1 {
			t.Errorf("a refused array left something: %+v", n)
		}
	})
	t.Run("the missing scope is named", func(t *testing.T) {
		wantError(t, f.as(made.Token, "GET", "/v1/queues", ""), 403, client.CodeForbidden, `"mailer" lacks the scope view; it has enqueue`)
	})
	t.Run("a name is taken", func(t *testing.T) {
		wantError(t, f.as(adminSecret, "POST", "/v1/tokens", `{"name":"mailer","scopes":["work"]}`), 409, client.CodeExists, "this name")
	})
	t.Run("a revoked one is worth nothing at once", func(t *testing.T) {
		if got := asOK[client.Revoked](f, adminSecret, "DELETE", "/v1/tokens/"+made.ID, ""); !got.Revoked || got.ID != made.ID {
			t.Errorf("got %+v", got)
		}
		wantError(t, f.as(made.Token, "POST", "/v1/jobs", `{"queue":"mail"}`), 401, client.CodeUnauthorized, `"mailer" is revoked`)
		wantError(t, f.as(adminSecret, "DELETE", "/v1/tokens/99", ""), 404, client.CodeNotFound, "no such access token")
	})
	t.Run("an expired one is refused", func(t *testing.T) {
		short := asOK[client.Token](f, adminSecret, "POST", "/v1/tokens", `{"name":"short","scopes":["view"],"expires_in_ms":1}`)
		time.Sleep(2 * time.Millisecond)
		wantError(t, f.as(short.Token, "GET", "/v1/queues", ""), 401, client.CodeUnauthorized, `"short" has expired`)
	})
	for body, part := range map[string]string{
		`{"name":"x"}`:                                                              "scopes: name at least one",
		`{"scopes":["view"]}`:                                                       "name: is required",
		`{"name":"x","scopes":["root"]}`:                                            `"root" is none of enqueue`,
		`{"name":"x","scopes":["payload"]}`:                                         "add view",
		`{"name":"x","scopes":["view"],"queues":["a/b"]}`:                           `"a/b" is not the name`,
		`{"name":"x","scopes":["view"],"queues":["[a]"]}`:                           "is not the name",
		`{"name":"x","scopes":["view"],"queues":[""]}`:                              "is not the name",
		`{"name":"x","scopes":["view"],"expires_in_ms":-1}`:                         "expires_in_ms",
		`{"name":"x","scopes":["view"],"expires_at_ms":1000}`:                       "expires_at_ms",
		`{"name":"x","scopes":["view"],"expires_in_ms":5,"expires_at_ms":1}`:        "give one of them",
		`{"name":"` + strings.Repeat("x", 200) + `","scopes":["view"],"queues":[]}`: "name: at most",
	} {
		t.Run("a bad request is refused: "+part, func(t *testing.T) {
			wantError(t, f.as(adminSecret, "POST", "/v1/tokens", body), 400, client.CodeInvalid, part)
		})
	}
}

func TestWithoutTokens(t *testing.T) {
	t.Run("an empty secret is none", func(t *testing.T) {
		f := securedWith(t, node.Config{AdminToken: "", Listen: "0.0.0.0:7780"})
		for _, token := range []string{"", " ", "hf_", adminSecret} {
			wantError(t, f.as(token, "GET", "/v1/queues", ""), 401, client.CodeUnauthorized, "")
		}
	})
	t.Run("this machine's users may do everything, and the first token administers", func(t *testing.T) {
		f := securedWith(t, node.Config{})
		body := func(name, scope string) string { return fmt.Sprintf(`{"name":%q,"scopes":[%q]}`, name, scope) }
		wantError(t, f.send("POST", "/v1/tokens", body("first", "enqueue")), 400, client.CodeInvalid, "must have the scope admin")
		first := call[client.Token](f, 201, "POST", "/v1/tokens", body("first", "admin"))
		wantError(t, f.send("GET", "/v1/queues", ""), 401, client.CodeUnauthorized, "")
		second := asOK[client.Token](f, first.Token, "POST", "/v1/tokens", body("second", "view"))
		wantError(t, f.as(first.Token, "DELETE", "/v1/tokens/"+first.ID, ""), 409, client.CodeWrongState, "the last token")
		asOK[client.Queues](f, second.Token, "GET", "/v1/queues", "")
		asOK[client.Revoked](f, first.Token, "DELETE", "/v1/tokens/"+second.ID, "")
		asOK[client.Revoked](f, first.Token, "DELETE", "/v1/tokens/"+first.ID, "")
		call[client.Queues](f, 200, "GET", "/v1/queues", "")
	})
}

// TestRestrictedQueues looks through every window for what a token is not for.
func TestRestrictedQueues(t *testing.T) {
	f := secured(t)
	for _, name := range []string{"mail", "secret", "mail", "secret"} {
		asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"`+name+`","payload":{"marker":"PAYLOAD"}}`)
	}
	worker := f.token("worker", []string{"mail"}, "work").Token
	viewer := f.token("viewer", []string{"mail"}, "view").Token
	reader := f.token("reader", []string{"mail"}, "view", "payload").Token
	admin := f.token("admin", []string{"mail"}, "admin").Token
	foreign := asOK[client.Claims](f, adminSecret, "POST", "/v1/claims", `{"queues":["secret"]}`).Jobs[0]

	t.Run("a worker claims its queues, with payloads", func(t *testing.T) {
		wantError(t, f.as(worker, "POST", "/v1/claims", `{"queues":["mail","secret"]}`), 403, client.CodeForbidden, `"secret"`)
		jobs := asOK[client.Claims](f, worker, "POST", "/v1/claims", `{"queues":["mail"]}`).Jobs
		if len(jobs) != 1 || !strings.Contains(string(jobs[0].Payload), "PAYLOAD") {
			t.Fatalf("got %+v", jobs)
		}
		for _, verb := range []string{"ack", "fail", "release", "snooze", "extend"} {
			item := `{"lease":"` + foreign.Lease + `"}`
			wantError(t, f.as(worker, "POST", "/v1/jobs/"+foreign.ID+"/"+verb, item), 403, client.CodeForbidden, "job "+foreign.ID)
			own := `{"lease":"` + jobs[0].Lease + `"}`
			if verb != "extend" { // the last one of its own would end the run
				own = `{"lease":"1.99.1.x"}`
			}
			got := asOK[client.Results](f, worker, "POST", "/v1/"+verb+"s", `{"`+verb+`s":[`+item+`,`+own+`]}`).Results
			if len(got) != 2 || got[0].OK || got[0].ID != foreign.ID || got[0].Error.Code != client.CodeForbidden || (got[1].OK != (verb == "extend")) {
				t.Errorf("%s: got %+v", verb, got)
			}
		}
		carried := asOK[client.Claims](f, worker, "POST", "/v1/claims",
			fmt.Sprintf(`{"queues":["mail"],"acks":[{"lease":%q},{"lease":%q}],"fails":[{"lease":%q}]}`, foreign.Lease, jobs[0].Lease, foreign.Lease))
		if len(carried.Acks) != 2 || carried.Acks[0].OK || !carried.Acks[1].OK || carried.Fails[0].Error.Code != client.CodeForbidden {
			t.Errorf("got %+v", carried)
		}
		if job := asOK[client.Job](f, adminSecret, "GET", "/v1/jobs/"+foreign.ID, ""); job.State != "running" {
			t.Errorf("the foreign job is %s", job.State)
		}
	})
	t.Run("lists, counts and exports have its queues alone", func(t *testing.T) {
		for _, path := range []string{"/v1/jobs", "/v1/jobs?payload=true", "/v1/jobs?state=running", "/v1/queues", "/v1/health", "/v1/export"} {
			w := f.as(viewer, "GET", path, "")
			if text := w.Body.String(); w.Code != 200 || strings.Contains(text, "secret") || !strings.Contains(text, "mail") {
				t.Errorf("%s: %d %s", path, w.Code, text)
			}
		}
		for _, path := range []string{"/v1/jobs?queue=secret", "/v1/queues/secret", "/v1/queues/secret/throughput", "/v1/health?queue=secret", "/v1/jobs/" + foreign.ID, "/metrics"} {
			wantError(t, f.as(viewer, "GET", path, ""), 403, client.CodeForbidden, "")
		}
		wantError(t, f.as(viewer, "GET", "/v1/jobs/99", ""), 404, client.CodeNotFound, "")
	})
	t.Run("payloads are for the scope payload", func(t *testing.T) {
		for _, path := range []string{"/v1/jobs/1", "/v1/jobs?payload=true", "/v1/export"} {
			if text := f.as(viewer, "GET", path, "").Body.String(); strings.Contains(text, "PAYLOAD") || !strings.Contains(text, `"payload_hidden":true`) {
				t.Errorf("%s: %s", path, text)
			}
			if text := f.as(reader, "GET", path, "").Body.String(); !strings.Contains(text, "PAYLOAD") || strings.Contains(text, "payload_hidden") {
				t.Errorf("%s: %s", path, text)
			}
		}
	})
	t.Run("an admin of some queues changes those alone", func(t *testing.T) {
		for _, one := range []struct{ method, path, body string }{
			{"POST", "/v1/jobs/4/cancel", ""},
			{"DELETE", "/v1/jobs/4", ""},
			{"POST", "/v1/queues/secret/pause", ""},
			{"PATCH", "/v1/queues/secret", `{"max_attempts":2}`},
			{"PATCH", "/v1/queues/new", `{"create":true}`},
			{"POST", "/v1/dead/retry", `{"queue":"secret"}`},
			{"GET", "/v1/tokens", ""},
			{"GET", "/v1/audit", ""},
			{"POST", "/v1/tokens", `{"name":"all","scopes":["admin"]}`},
			{"DELETE", "/v1/tokens/1", ""},
		} {
			wantError(t, f.as(admin, one.method, one.path, one.body), 403, client.CodeForbidden, "")
		}
		asOK[client.Result](f, adminSecret, "POST", "/v1/jobs/"+foreign.ID+"/fail", `{"lease":"`+foreign.Lease+`","fatal":true}`)
		if got := asOK[client.DeadStep](f, admin, "POST", "/v1/dead/retry", `{}`); got.Count != 0 {
			t.Errorf("it retried %d jobs of another queue", got.Count)
		}
		if got := asOK[client.DeadGroups](f, adminSecret, "GET", "/v1/dead/groups", ""); got.Total != 1 {
			t.Errorf("the dead jobs of all queues: %+v", got)
		}
		for _, token := range []string{viewer, admin} {
			if got := asOK[client.DeadGroups](f, token, "GET", "/v1/dead/groups", ""); got.Total != 0 || got.Kinds != 0 || len(got.Groups) != 0 {
				t.Errorf("it sees dead jobs of another queue: %+v", got)
			}
			wantError(t, f.as(token, "GET", "/v1/dead/groups?queue=secret", ""), 403, client.CodeForbidden, "")
		}
		asOK[client.Queue](f, admin, "POST", "/v1/queues/mail/pause", "")
	})
}

func TestAudit(t *testing.T) {
	f := secured(t)
	asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"mail"}`)
	ops := f.token("ops", nil, "admin")
	asOK[client.Job](f, ops.Token, "POST", "/v1/jobs/1/cancel", "")
	asOK[client.Queue](f, ops.Token, "PATCH", "/v1/queues/mail", `{"max_attempts":3}`)
	wantError(t, f.as(ops.Token, "POST", "/v1/jobs/9/cancel", ""), 404, client.CodeNotFound, "")
	page := asOK[client.AuditPage](f, ops.Token, "GET", "/v1/audit?limit=2", "")
	rest := asOK[client.AuditPage](f, ops.Token, "GET", "/v1/audit?limit=2&after="+*page.Next, "")
	var got []string
	for _, e := range slices.Concat(page.Entries, rest.Entries) {
		got = append(got, fmt.Sprintf("%s(%s) %s %s %d %s %s", e.Actor, e.TokenID, e.Action, e.Target, e.Count, e.Remote, e.Detail))
	}
	want := []string{
		`ops(1) queue.update mail 1 192.0.2.1 {"max_attempts":3}`,
		`ops(1) job.cancel 1 1 192.0.2.1 `,
		`HOLDFAST_ADMIN_TOKEN() token.create ops 1 192.0.2.1 {"queues":["*"],"scopes":["admin"]}`,
	}
	if !slices.Equal(got, want) || rest.Next != nil {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFailedLogins(t *testing.T) {
	f := secured(t)
	ops := f.token("ops", nil, "view").Token
	limited := 0
	for range 100 {
		w := f.from("203.0.113.7:1", "hf_guess", "GET", "/v1/queues", "")
		if w.Code == http.StatusTooManyRequests {
			limited++
			if w.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if limited < 70 || limited > 90 {
		t.Errorf("%d of 100 wrong tokens were one too many", limited)
	}
	t.Run("a right token is let in from there", func(t *testing.T) {
		if w := f.from("203.0.113.7:2", ops, "GET", "/v1/queues", ""); w.Code != 200 {
			t.Errorf("got %d", w.Code)
		}
	})
	t.Run("another address is not limited", func(t *testing.T) {
		if w := f.from("203.0.113.8:1", "hf_guess", "GET", "/v1/queues", ""); w.Code != http.StatusUnauthorized {
			t.Errorf("got %d", w.Code)
		}
	})
	t.Run("what a client says of its address does not count", func(t *testing.T) {
		r := httptest.NewRequest("GET", base+"/v1/queues", nil)
		r.RemoteAddr = "203.0.113.7:3"
		r.Header.Set("Authorization", "Bearer hf_guess")
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		w := httptest.NewRecorder()
		f.api.ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("got %d", w.Code)
		}
	})
	t.Run("an admin token that could be guessed is not accepted from there", func(t *testing.T) {
		f := securedWith(t, node.Config{AdminToken: "weak"})
		if w := f.from("203.0.113.9:1", "weak", "GET", "/v1/queues", ""); w.Code != 200 {
			t.Errorf("before: got %d", w.Code)
		}
		for range 30 {
			f.from("203.0.113.9:1", "hf_guess", "GET", "/v1/queues", "")
		}
		if w := f.from("203.0.113.9:1", "weak", "GET", "/v1/queues", ""); w.Code != http.StatusTooManyRequests {
			t.Errorf("after: got %d", w.Code)
		}
		if w := f.from("203.0.113.10:1", "weak", "GET", "/v1/queues", ""); w.Code != 200 {
			t.Errorf("elsewhere: got %d", w.Code)
		}
	})
}

func TestGuardWithTokens(t *testing.T) {
	f := secured(t)
	send := func(headers map[string]string) int {
		r := httptest.NewRequest("GET", "https://jobs.example.com/v1/queues", nil)
		r.Header.Set("Authorization", "Bearer "+adminSecret)
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		f.api.ServeHTTP(w, r)
		return w.Code
	}
	for name, tt := range map[string]struct {
		headers map[string]string
		want    int
	}{
		"a program under any name passes":       {nil, 200},
		"a page of the node itself passes":      {map[string]string{"Origin": "https://jobs.example.com", "Sec-Fetch-Site": "same-origin"}, 200},
		"a page of another site is refused":     {map[string]string{"Origin": "https://evil.example"}, 403},
		"a page of loopback is another site":    {map[string]string{"Origin": "http://localhost:3000"}, 403},
		"a read for another page is refused":    {map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"an opaque origin is refused":           {map[string]string{"Origin": "null"}, 403},
		"a page of a name that begins the same": {map[string]string{"Origin": "https://jobs.example.com.evil.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			if got := send(tt.headers); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
