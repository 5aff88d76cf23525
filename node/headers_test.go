package node_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/node/client"
)

// with sends a request with headers, given as name and value in turn.
func (f *fixture) with(headers []string, method, path, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := httptest.NewRequest(method, base+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return f.serve(r)
}

func TestIdempotencyKeyHeader(t *testing.T) {
	f := overQueue(t)
	add := func(header, body string) (id string, duplicate bool) {
		t.Helper()
		w := f.with([]string{"Idempotency-Key", header}, "POST", "/v1/jobs", body)
		if w.Code != http.StatusCreated && w.Code != http.StatusOK {
			t.Fatalf("got %d: %s", w.Code, w.Body)
		}
		job := answerOf[client.Enqueued](t, w)
		return job.ID, job.Duplicate
	}
	first, _ := add("k1", `{"queue":"mail"}`)
	for name, tt := range map[string]struct{ header, body string }{
		"the same header finds the job":       {"k1", `{"queue":"mail"}`},
		"in quotes it is the same key":        {`"k1"`, `{"queue":"mail"}`},
		"header and field may say the same":   {"k1", `{"queue":"mail","idempotency_key":"k1"}`},
		"the field is the same as the header": {"k1", `{"queue":"mail"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if id, duplicate := add(tt.header, tt.body); id != first || !duplicate {
				t.Errorf("got job %s, duplicate %t", id, duplicate)
			}
		})
	}
	t.Run("another key makes another job", func(t *testing.T) {
		if id, duplicate := add(`"with \"quotes\" and \\"`, `{"queue":"mail"}`); id == first || duplicate {
			t.Errorf("got job %s, duplicate %t", id, duplicate)
		}
		if got := call[client.Enqueued](f, 200, "POST", "/v1/jobs", `{"queue":"mail","idempotency_key":"with \"quotes\" and \\"}`); !got.Duplicate {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("another body under the key is a conflict", func(t *testing.T) {
		w := f.with([]string{"Idempotency-Key", "k1"}, "POST", "/v1/jobs", `{"queue":"mail","priority":1}`)
		wantError(t, w, 409, client.CodeIdempotencyConflict, "")
	})
	for name, tt := range map[string]struct {
		headers    []string
		body, part string
	}{
		"an array has a key for each job":    {[]string{"Idempotency-Key", "a"}, `[{"queue":"mail"}]`, "an idempotency_key of its own"},
		"a header and another field is both": {[]string{"Idempotency-Key", "a"}, `{"queue":"mail","idempotency_key":"b"}`, "differ"},
		"two headers are one too many":       {[]string{"Idempotency-Key", "a", "Idempotency-Key", "a"}, `{"queue":"mail"}`, "more than once"},
		"an empty one is a mistake":          {[]string{"Idempotency-Key", `""`}, `{"queue":"mail"}`, "empty"},
		"a long one is refused":              {[]string{"Idempotency-Key", strings.Repeat("x", 513)}, `{"queue":"mail"}`, "idempotency_key: at most 512"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, f.with(tt.headers, "POST", "/v1/jobs", tt.body), 400, client.CodeInvalid, tt.part)
		})
	}
}

func TestTraceparent(t *testing.T) {
	const one, two = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
	for name, tt := range map[string]struct {
		headers    []string
		body, want string
	}{
		"the header goes with the job":            {[]string{"traceparent", one}, `{"queue":"q"}`, one},
		"and with each of an array":               {[]string{"traceparent", one}, `[{"queue":"q"}]`, one},
		"the field comes first":                   {[]string{"traceparent", one}, `{"queue":"q","traceparent":"` + two + `"}`, two},
		"a header that is not valid is ignored":   {[]string{"traceparent", "00-1-2-3"}, `{"queue":"q"}`, ""},
		"two headers are not valid":               {[]string{"traceparent", one, "traceparent", two}, `{"queue":"q"}`, ""},
		"a job without a trace is claimed so":     {nil, `{"queue":"q"}`, ""},
		"the field alone is enough, in a key too": {nil, `{"queue":"q","idempotency_key":"k","traceparent":"` + two + `"}`, two},
	} {
		t.Run(name, func(t *testing.T) {
			f := overQueue(t)
			if w := f.with(tt.headers, "POST", "/v1/jobs", tt.body); w.Code != http.StatusCreated {
				t.Fatalf("got %d: %s", w.Code, w.Body)
			}
			claims := call[client.Claims](f, 200, "POST", "/v1/claims", `{"queues":["q"]}`)
			if len(claims.Jobs) != 1 || claims.Jobs[0].Traceparent != tt.want {
				t.Errorf("claimed %+v, want the trace %q", claims.Jobs, tt.want)
			}
			if job := call[client.Job](f, 200, "GET", "/v1/jobs/1", ""); job.Traceparent != tt.want {
				t.Errorf("got %q", job.Traceparent)
			}
		})
	}
	t.Run("a field that is not valid is refused", func(t *testing.T) {
		w := overQueue(t).send("POST", "/v1/jobs", `[{"queue":"q"},{"queue":"q","traceparent":"`+strings.ToUpper(one)+`"}]`)
		wantError(t, w, 400, client.CodeInvalid, "jobs[1].traceparent: ")
	})
}
