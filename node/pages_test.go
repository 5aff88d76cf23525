package node_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/node/dashboard"
)

// visit loads a page, or sends a form to it, with the session of a browser.
func (f *fixture) visit(session, method, path string, form url.Values) *httptest.ResponseRecorder {
	f.t.Helper()
	host := "https://jobs.example.com"
	if session == "local" {
		host, session = base, ""
	}
	r := httptest.NewRequest(method, host+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if session != "" {
		r.AddCookie(&http.Cookie{Name: dashboard.Cookie, Value: session})
	}
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, r)
	return w
}

// session logs in.
func (f *fixture) session(token string) string {
	f.t.Helper()
	w := f.visit("", "POST", "/login", url.Values{"token": {token}, "to": {"/dead"}})
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/dead" || len(cookies) != 1 {
		f.t.Fatalf("login: %d %s %v", w.Code, w.Header().Get("Location"), cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.MaxAge <= 0 || strings.Contains(c.Value, token) {
		f.t.Errorf("cookie: %+v", c)
	}
	return c.Value
}

// dead makes a dead job in the queue mail whose payload is MARKER, and returns
// its id.
func (f *fixture) dead(token string) string {
	f.t.Helper()
	job := asOK[client.Enqueued](f, token, "POST", "/v1/jobs", `{"queue":"mail","payload":"MARKER"}`)
	claims := asOK[client.Claims](f, token, "POST", "/v1/claims", `{"queues":["mail"],"worker":"w:1:a"}`)
	asOK[client.Results](f, token, "POST", "/v1/fails", `{"fails":[{"lease":"`+claims.Jobs[0].Lease+`","error":"<script>alert(1)</script>","fatal":true}]}`)
	return job.ID
}

func pagesOf(id string) []string {
	return []string{
		"/", "/?range=day", "/queues/mail", "/queues/mail?state=dead", "/queues/mail/pause", "/jobs/" + id, "/jobs/" + id + "/delete", "/jobs/" + id + "/archive",
		"/dead", "/dead?queue=mail", "/dead?type=x&since=2026-01-02T03:04", "/dead/retry?queue=mail", "/dead/archive", "/workers", "/nodes",
	}
}

func TestPages(t *testing.T) {
	f := secured(t)
	id := f.dead(adminSecret)
	admin := f.session(adminSecret)
	viewer := f.token("viewer", nil, client.ScopeView)
	t.Run("an administrator sees each page, under a strict policy", func(t *testing.T) {
		for _, path := range pagesOf(id) {
			w := f.visit(admin, "GET", path, nil)
			policy := w.Header().Get("Content-Security-Policy")
			if w.Code != http.StatusOK || !strings.Contains(policy, "script-src 'self'") || strings.Contains(policy, "unsafe") || !strings.Contains(w.Body.String(), "</html>") {
				t.Errorf("%s: %d, policy %q", path, w.Code, policy)
			}
			for _, bad := range []string{"<script>", "style=", "onclick", "ZgotmplZ"} {
				if strings.Contains(w.Body.String(), bad) {
					t.Errorf("%s has %s", path, bad)
				}
			}
		}
	})
	t.Run("nobody sees more than the login", func(t *testing.T) {
		for _, path := range append(pagesOf(id), "/live") {
			for _, session := range []string{"", "x", strings.Repeat("A", 64), admin[:len(admin)-3] + "AAA"} {
				w := f.visit(session, "GET", path, nil)
				if w.Code != http.StatusSeeOther && w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "mail") && !strings.Contains(w.Body.String(), "/login") {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		}
		if w := f.visit("", "POST", "/dead/retry", url.Values{}); w.Code != http.StatusSeeOther {
			t.Errorf("POST: %d", w.Code)
		}
	})
	t.Run("a viewer changes nothing and sees no payload", func(t *testing.T) {
		session := f.session(viewer.Token)
		for _, path := range pagesOf(id) {
			w := f.visit(session, "GET", path, nil)
			if strings.Contains(w.Body.String(), "MARKER") || strings.Contains(strings.Split(w.Body.String(), "<main")[1], `method="post"`) {
				t.Errorf("%s: shows a payload or a form", path)
			}
		}
		for _, path := range []string{"/jobs/" + id + "/retry", "/jobs/" + id + "/delete", "/jobs/" + id + "/archive", "/dead/retry", "/dead/archive", "/queues/mail/pause"} {
			if w := f.visit(session, "POST", path, url.Values{}); w.Code != http.StatusForbidden {
				t.Errorf("POST %s: %d", path, w.Code)
			}
		}
		if job := asOK[client.Job](f, adminSecret, "GET", "/v1/jobs/"+id, ""); job.State != "dead" {
			t.Errorf("the job is %s", job.State)
		}
	})
	t.Run("a token for some queues sees only them", func(t *testing.T) {
		other := f.session(f.token("other", []string{"other"}, client.ScopeAdmin).Token)
		for _, path := range []string{"/", "/dead", "/workers"} {
			if w := f.visit(other, "GET", path, nil); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "/queues/mail") {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
		for _, path := range []string{"/jobs/" + id, "/dead?queue=mail", "/jobs/" + id + "/delete"} {
			if w := f.visit(other, "GET", path, nil); w.Code != http.StatusForbidden {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
		if w := f.visit(other, "POST", "/jobs/"+id+"/retry", url.Values{}); w.Code != http.StatusForbidden {
			t.Errorf("retry: %d", w.Code)
		}
	})
	t.Run("a session ends with its token, and is worth nothing to another process", func(t *testing.T) {
		session := f.session(viewer.Token)
		asOK[client.Revoked](f, adminSecret, "DELETE", "/v1/tokens/"+viewer.ID, "")
		if w := f.visit(session, "GET", "/", nil); w.Code != http.StatusSeeOther {
			t.Errorf("after the token was revoked: %d", w.Code)
		}
		if w := secured(t).visit(admin, "GET", "/", nil); w.Code != http.StatusSeeOther {
			t.Errorf("another process: %d", w.Code)
		}
		if w := f.visit(admin, "GET", "/v1/jobs", nil); w.Code != http.StatusUnauthorized {
			t.Errorf("the API takes a session: %d", w.Code)
		}
	})
	t.Run("wrong tokens are refused, then limited, and not logged", func(t *testing.T) {
		var codes []int
		for range 25 {
			codes = append(codes, f.visit("", "POST", "/login", url.Values{"token": {"hf_wrongwrong"}}).Code)
		}
		if codes[0] != http.StatusUnauthorized || codes[24] != http.StatusTooManyRequests {
			t.Errorf("got %v", codes)
		}
		if strings.Contains(f.log.String(), "wrongwrong") || strings.Contains(f.log.String(), adminSecret) {
			t.Error("the log has a token")
		}
	})
	t.Run("requests are logged at debug by their route", func(t *testing.T) {
		if log := f.log.String(); !strings.Contains(log, `msg=request method=GET route="GET /jobs/{id}" status=200`) {
			t.Errorf("log: %.2000s", log)
		}
	})
	t.Run("after the login one goes to a page of the node", func(t *testing.T) {
		for _, to := range []string{"//evil.example", "https://evil.example", "/\\evil.example", ""} {
			if w := f.visit("", "POST", "/login", url.Values{"token": {adminSecret}, "to": {to}}); w.Header().Get("Location") != "/" {
				t.Errorf("%q leads to %q", to, w.Header().Get("Location"))
			}
		}
	})
}

func TestPageActions(t *testing.T) {
	f := overQueue(t)
	send := func(t *testing.T, path string, form url.Values, want int) *httptest.ResponseRecorder {
		t.Helper()
		w := f.visit("local", "POST", path, form)
		if w.Code != want {
			t.Fatalf("POST %s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
		return w
	}
	job := func(id string) client.Job {
		return answerOf[client.Job](t, f.send("GET", "/v1/jobs/"+id, ""))
	}
	die := func() string {
		made := answerOf[client.Enqueued](t, f.send("POST", "/v1/jobs", `{"queue":"mail","payload":{"a":1}}`))
		claims := answerOf[client.Claims](t, f.send("POST", "/v1/claims", `{"queues":["mail"],"worker":"w:1:a"}`))
		f.send("POST", "/v1/fails", `{"fails":[{"lease":"`+claims.Jobs[0].Lease+`","error":"no","fatal":true}]}`)
		return made.ID
	}
	t.Run("a retry keeps the payload, or takes the form's", func(t *testing.T) {
		id := die()
		send(t, "/jobs/"+id+"/retry", url.Values{"payload": {"{\r\n  \"a\": 1\r\n}"}}, http.StatusSeeOther)
		if j := job(id); j.State != "queued" || string(j.Payload) != `{"a":1}` {
			t.Errorf("got %s %s", j.State, j.Payload)
		}
		send(t, "/jobs/"+id+"/retry", url.Values{}, http.StatusConflict) // it is not dead
		send(t, "/jobs/"+id+"/cancel", url.Values{}, http.StatusSeeOther)
		send(t, "/jobs/"+id+"/delete", url.Values{}, http.StatusSeeOther)
		send(t, "/jobs/"+id+"/delete", url.Values{}, http.StatusNotFound)
	})
	t.Run("many are retried in steps that end", func(t *testing.T) {
		for range 5 {
			die()
		}
		w := f.visit("local", "GET", "/dead/retry?queue=mail", nil)
		if !strings.Contains(w.Body.String(), "Retry 5 dead jobs?") {
			t.Fatalf("dry run: %s", w.Body)
		}
		form, steps := url.Values{"queue": {"mail"}, "pace": {"2"}, "total": {"5"}}, 0
		for {
			steps++
			body := send(t, "/dead/retry", form, http.StatusOK).Body.String()
			_, rest, more := strings.Cut(body, `name="after" value="`)
			if !more {
				break
			}
			form.Set("after", rest[:strings.Index(rest, `"`)])
			form.Set("changed", strconv.Itoa(2*steps))
		}
		page := answerOf[client.Jobs](t, f.send("GET", "/v1/jobs?state=queued", ""))
		if len(page.Jobs) != 5 || steps != 3 {
			t.Errorf("%d jobs in %d steps", len(page.Jobs), steps)
		}
	})
	t.Run("a queue is paused and resumed", func(t *testing.T) {
		for _, action := range []string{"pause", "resume"} {
			send(t, "/queues/mail/"+action, url.Values{}, http.StatusSeeOther)
			if q := answerOf[client.Queue](t, f.send("GET", "/v1/queues/mail", "")); q.Paused != (action == "pause") {
				t.Errorf("%s: paused is %v", action, q.Paused)
			}
		}
		if w := send(t, "/queues/mial/pause", url.Values{}, http.StatusNotFound); !strings.Contains(w.Body.String(), "no such queue: &#34;mial&#34;") {
			t.Errorf("got %s", w.Body)
		}
		send(t, "/queues/mail/delete", url.Values{}, http.StatusNotFound)
	})
	t.Run("a queue that is not there is named", func(t *testing.T) {
		for path, says := range map[string]string{
			"/queues/mial":       "There is no queue &#34;mial&#34;.",
			"/queues/%3Cb%3E":    "There is no queue &#34;&lt;b&gt;&#34;.",
			"/queues/mial/pause": "There is no queue &#34;mial&#34;.",
			"/dead?queue=mial":   "no such queue: &#34;mial&#34;",
		} {
			if w := f.visit("local", "GET", path, nil); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
	t.Run("each is in the audit trail", func(t *testing.T) {
		trail := answerOf[client.AuditPage](t, f.send("GET", "/v1/audit", ""))
		var actions []string
		for _, e := range trail.Entries {
			actions = append(actions, e.Action)
		}
		want := "queue.resume queue.pause dead.retry dead.retry dead.retry job.delete job.cancel job.retry"
		if got := strings.Join(actions, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestPagesAway(t *testing.T) {
	f := over(t, nil)
	for _, path := range []string{"/", "/dead", "/workers", "/jobs/1", "/queues/mail"} {
		if w := f.visit("local", "GET", path, nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "the database is being opened") {
			t.Errorf("%s while the node starts: %d %s", path, w.Code, w.Body)
		}
	}
	f.api.Standby("a", "http://a.example:7780")
	if w := f.visit("local", "GET", "/", nil); !strings.Contains(w.Body.String(), `href="http://a.example:7780"`) || !strings.Contains(w.Body.String(), "standby") {
		t.Errorf("a standby: %s", w.Body)
	}
	if w := f.visit("local", "POST", "/dead/retry", url.Values{}); w.Code != http.StatusForbidden {
		t.Errorf("a change at a standby: %d", w.Code)
	}
}
