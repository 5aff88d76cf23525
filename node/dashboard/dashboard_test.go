package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/node/dashboard"
)

// house is a gate, and a node with whatever a test puts there.
type house struct {
	dashboard.Reader // nil: what a test does not need panics

	refuse  error
	visitor dashboard.Visitor
	queues  []dashboard.Queue
	job     dashboard.Job
	minutes []dashboard.Minute
	fault   error
}

func (h *house) Visitor(*http.Request) (*dashboard.Visitor, error) {
	v := h.visitor
	v.Reader = h
	return &v, h.refuse
}

func (h *house) Login(*http.Request, string) (string, time.Duration, error) {
	return "", 0, errors.New("not here")
}

func (h *house) Node(context.Context) (dashboard.Node, error)      { return dashboard.Node{}, h.fault }
func (h *house) Queues(context.Context) ([]dashboard.Queue, error) { return h.queues, h.fault }
func (h *house) Job(context.Context, int64) (dashboard.Job, error) { return h.job, h.fault }
func (h *house) Minutes(context.Context, string, time.Time) ([]dashboard.Minute, error) {
	return h.minutes, h.fault
}

func (h *house) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	dashboard.New(dashboard.Options{Gate: h}).ServeHTTP(w, httptest.NewRequest("GET", path, http.NoBody))
	return w
}

func TestEmptyNode(t *testing.T) {
	if body := (&house{}).get("/").Body.String(); !strings.Contains(body, "holdfast enqueue") {
		t.Errorf("an empty overview does not say what to do: %s", body)
	}
}

func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		house  house
		status int
		says   string
	}{
		"a fault of the node is not shown":       {house{fault: errors.New("disk at sector 7")}, http.StatusInternalServerError, "log has the cause"},
		"an error for visitors is":               {house{fault: &dashboard.Error{Status: http.StatusConflict, Message: "no such luck"}}, http.StatusConflict, "no such luck"},
		"who is not logged in goes to the login": {house{refuse: dashboard.ErrLogin}, http.StatusSeeOther, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.house.get("/")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) || strings.Contains(w.Body.String(), "sector") {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

func TestHostileText(t *testing.T) {
	evil := `"><script>alert(1)</script>{{.}}`
	h := &house{
		visitor: dashboard.Visitor{Payloads: true, Name: evil},
		job: dashboard.Job{
			ID: 1, Queue: "q", State: "dead", Type: evil, LastError: evil, Worker: evil, Tags: map[string]string{evil: evil}, Traceparent: evil,
			Payload: json.RawMessage(`{"a":"` + `</textarea><script>` + `"}`), MaxAttempts: 1, Runs: []dashboard.Run{{Run: 1, Outcome: "failed", Worker: evil, Error: evil}},
		},
		queues: []dashboard.Queue{{Name: "q", LastError: evil, LastErrorAt: time.Now()}},
	}
	for _, path := range []string{"/", "/jobs/1"} {
		body := h.get(path).Body.String()
		if strings.Contains(body, "<script>") || strings.Contains(body, "</textarea><script") || !strings.Contains(body, "</html>") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

func TestTimeline(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	h := &house{job: dashboard.Job{
		ID: 7, Queue: "q", State: "done", CreatedAt: at, StartedAt: at.Add(time.Minute), FinishedAt: at.Add(time.Minute + 250*time.Millisecond), Run: 2, MaxAttempts: 5, Attempt: 2,
		Runs: []dashboard.Run{{Run: 1, StartedAt: at, EndedAt: at.Add(3 * time.Second), Outcome: "timeout", Worker: "w:1:a", Error: "too slow"}},
	}}
	body := h.get("/jobs/7").Body.String()
	last := 0
	for _, want := range []string{"Enqueued", "2026-11-30 14:00:00.000 UTC", "Run 1 timeout", "after 3.0 s", "w:1:a", "too slow", "Run 2 done", "after 250 ms"} {
		i := strings.Index(body[last:], want)
		if i < 0 {
			t.Fatalf("%q is not there, or not in its place: %s", want, body)
		}
		last += i
	}
}

func TestChart(t *testing.T) {
	now := time.Now()
	h := &house{
		queues:  []dashboard.Queue{{Name: "q"}},
		minutes: []dashboard.Minute{{Queue: "q", At: now.Truncate(time.Minute).Add(-2 * time.Minute), Enqueued: 50, Done: 30}, {Queue: "q", At: now.Add(-72 * time.Hour), Dead: 9}},
	}
	for _, path := range []string{"/", "/?range=day"} {
		body := h.get(path).Body.String()
		if !strings.Contains(body, "50 enqueued, 30 done, 0 failed, 0 dead") || !strings.Contains(body, "<polyline") || !strings.Contains(body, "data-chart=") {
			t.Errorf("%s: %s", path, body)
		}
	}
	if body := h.get("/").Body.String(); !strings.Contains(body, `<td data-label="In / min" class="num">10</td>`) {
		t.Errorf("the rate over five minutes: %s", body)
	}
}
