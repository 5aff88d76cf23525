package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/node/client"
)

// answering returns a client of a server with the given handler.
func answering(t *testing.T, opts client.Options, h http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestNew(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:7780", "localhost", "ftp://host", "http://", "http://a b"} {
		t.Run("refuses "+bad, func(t *testing.T) {
			if _, err := client.New(bad, client.Options{}); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:7780") {
				t.Errorf("got %v, want an error with an example", err)
			}
		})
	}
	t.Run("keeps a path and drops the last slash", func(t *testing.T) {
		c, err := client.New("https://example.com/queue/", client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.URL(), "https://example.com/queue"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestRequests(t *testing.T) {
	type request struct{ method, uri, body string }
	var got request
	answer := ""
	c := answering(t, client.Options{Token: "hf_1"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = request{r.Method, r.URL.RequestURI(), strings.TrimSpace(string(body))}
		if r.Header.Get("Authorization") != "Bearer hf_1" {
			t.Errorf("Authorization: got %q", r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, answer)
	})
	ctx := t.Context()
	in := int64(60000)
	tests := []struct {
		name   string
		answer string
		call   func() (any, error)
		want   request
	}{
		{"claim", `{"jobs":[]}`, func() (any, error) {
			return c.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}, Max: 2})
		}, request{"POST", "/v1/claims", `{"queues":["mail"],"max":2}`}},
		{"ack", `{"results":[{"id":"7","ok":true}]}`, func() (any, error) {
			return c.Ack(ctx, client.Ack{Lease: "l", Result: []byte(`{"a":"<b>"}`)})
		}, request{"POST", "/v1/acks", `{"acks":[{"lease":"l","result":{"a":"<b>"}}]}`}},
		{"fail", `{"results":[{"id":"7","ok":true}]}`, func() (any, error) {
			return c.Fail(ctx, client.Fail{Lease: "l", Error: "e", RetryInMS: &in})
		}, request{"POST", "/v1/fails", `{"fails":[{"lease":"l","error":"e","retry_in_ms":60000}]}`}},
		{"release", `{"results":[{"id":"7","ok":true}]}`, func() (any, error) {
			return c.Release(ctx, client.Release{Lease: "l"})
		}, request{"POST", "/v1/releases", `{"releases":[{"lease":"l"}]}`}},
		{"extend", `{"results":[{"id":"7","ok":true}]}`, func() (any, error) {
			return c.Extend(ctx, client.Extend{Lease: "l", LeaseMS: 1000})
		}, request{"POST", "/v1/extends", `{"extends":[{"lease":"l","lease_ms":1000}]}`}},
		{"job", `{"id":"7"}`, func() (any, error) { return c.Job(ctx, "7") }, request{"GET", "/v1/jobs/7", ""}},
		{"an id is escaped", `{"id":"7"}`, func() (any, error) { return c.Job(ctx, "../x?y") }, request{"GET", "/v1/jobs/..%2Fx%3Fy", ""}},
		{"retry", `{"id":"7"}`, func() (any, error) { return c.Retry(ctx, "7", nil) }, request{"POST", "/v1/jobs/7/retry", `{}`}},
		{"retry with a payload", `{"id":"7"}`, func() (any, error) { return c.Retry(ctx, "7", []byte(`[1]`)) }, request{"POST", "/v1/jobs/7/retry", `{"payload":[1]}`}},
		{"cancel", `{"id":"7"}`, func() (any, error) { return c.Cancel(ctx, "7") }, request{"POST", "/v1/jobs/7/cancel", ""}},
		{"jobs", `{"jobs":[]}`, func() (any, error) {
			return c.Jobs(ctx, client.Filter{State: "dead", Tag: "a:b", Limit: 5})
		}, request{"GET", "/v1/jobs?limit=5&state=dead&tag=a%3Ab", ""}},
		{"queues", `{"queues":[]}`, func() (any, error) { return c.Queues(ctx) }, request{"GET", "/v1/queues", ""}},
		{"health", `{"queues":[]}`, func() (any, error) { return c.Health(ctx, "mail") }, request{"GET", "/v1/health?queue=mail", ""}},
		{"version", `{}`, func() (any, error) { return c.Version(ctx) }, request{"GET", "/version", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer = tt.answer
			if _, err := tt.call(); err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	status, body := 0, ""
	c := answering(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	tests := []struct {
		name      string
		status    int
		body      string
		sentinel  error // nil: none
		temporary bool
		text      string
	}{
		{"a code becomes its sentinel", 409, `{"error":{"code":"wrong_state","message":"it is done"}}`, client.ErrWrongState, false, "it is done"},
		{"a node that starts is temporary", 503, `{"error":{"code":"unavailable","message":"starting"}}`, client.ErrUnavailable, true, "starting"},
		{"a proxy's page is told apart", 502, "<html>Bad   Gateway</html>", nil, true, "502 Bad Gateway <html>Bad Gateway</html>"},
		{"something else than a node is said to be", 200, "hello", nil, false, "not that of a Holdfast node"},
		{"a long page is cut", 404, strings.Repeat("x", 1<<20), nil, false, "404 Not Found xxx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body = tt.status, tt.body
			_, err := c.Job(t.Context(), "7")
			if err == nil || !strings.Contains(err.Error(), tt.text) || len(err.Error()) > 400 {
				t.Fatalf("got %v, want %q in it", err, tt.text)
			}
			if tt.sentinel != nil && !errors.Is(err, tt.sentinel) {
				t.Errorf("got %v, want %v", err, tt.sentinel)
			}
			if errors.Is(err, client.ErrLeaseLost) {
				t.Errorf("%v is a lost lease too", err)
			}
			if got := client.Temporary(err); got != tt.temporary {
				t.Errorf("temporary: got %t, want %t", got, tt.temporary)
			}
		})
	}
	t.Run("an item's error becomes its sentinel", func(t *testing.T) {
		status, body = 200, `{"results":[{"id":"7","ok":false,"error":{"code":"lease_lost","message":"gone"}}]}`
		results, err := c.Ack(t.Context(), client.Ack{Lease: "l"})
		if err != nil || !errors.Is(results[0].Err(), client.ErrLeaseLost) {
			t.Errorf("got %v and %v, want ErrLeaseLost for the item", results, err)
		}
	})
	t.Run("a missing item is an error", func(t *testing.T) {
		status, body = 200, `{"results":[]}`
		if _, err := c.Ack(t.Context(), client.Ack{Lease: "l"}); err == nil {
			t.Error("got nil, want an error")
		}
	})
}

func TestUnreachable(t *testing.T) {
	t.Run("when nobody listens", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		c, err := client.New(server.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Queues(t.Context())
		var unreachable *client.UnreachableError
		if !errors.As(err, &unreachable) || unreachable.URL != server.URL {
			t.Errorf("got %v, want an *UnreachableError of %s", err, server.URL)
		}
	})
	t.Run("when the answer takes too long", func(t *testing.T) {
		c := answering(t, client.Options{Timeout: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, err := c.Queues(t.Context())
		var unreachable *client.UnreachableError
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "no answer in time") {
			t.Errorf("got %v, want an *UnreachableError", err)
		}
	})
	t.Run("not when the caller gave up", func(t *testing.T) {
		c := answering(t, client.Options{}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Queues(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || client.Temporary(err) {
			t.Errorf("got %v, want context.DeadlineExceeded", err)
		}
	})
	t.Run("not when a claim waits for longer than the timeout", func(t *testing.T) {
		c := answering(t, client.Options{Timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(150 * time.Millisecond)
			fmt.Fprint(w, `{"jobs":[]}`)
		})
		if _, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{"q"}, WaitMS: 300}); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

func TestReady(t *testing.T) {
	status, body := 200, `{"ready":true}`
	c := answering(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	if got, err := c.Ready(t.Context()); err != nil || !got.Ready {
		t.Errorf("got %v, %v, want ready", got, err)
	}
	status, body = 503, `{"ready":false,"reasons":["starting"]}`
	if got, err := c.Ready(t.Context()); err != nil || got.Ready || len(got.Reasons) != 1 {
		t.Errorf("got %v, %v, want not ready with a reason", got, err)
	}
}

// transport answers requests in memory, so that waits cost no time.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// try is what comes of one request.
type try struct {
	status int
	body   string
	err    error
}

func TestEnqueue(t *testing.T) {
	const job = `{"id":"7","queue":"mail","state":"queued","duplicate":true}`
	enqueue := func(t *testing.T, tries []try, specs ...client.Spec) (jobs []client.Enqueued, bodies []string, err error) {
		c, err := client.New("http://test", client.Options{HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(body))
			next := tries[min(len(bodies), len(tries))-1]
			return &http.Response{StatusCode: next.status, Body: io.NopCloser(strings.NewReader(next.body))}, next.err
		})}})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err = c.Enqueue(t.Context(), specs...)
		return jobs, bodies, err
	}
	keyOf := func(t *testing.T, body string) string {
		var spec client.Spec
		if err := json.Unmarshal([]byte(body), &spec); err != nil {
			t.Fatal(err)
		}
		return spec.IdempotencyKey
	}
	t.Run("a cut connection is tried again with the same key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			jobs, bodies, err := enqueue(t, []try{{err: io.ErrUnexpectedEOF}, {503, "", nil}, {200, job, nil}}, client.Spec{Queue: "mail"})
			if err != nil || len(bodies) != 3 || bodies[0] != bodies[1] || bodies[1] != bodies[2] {
				t.Fatalf("got %v after %q, want the same body three times", err, bodies)
			}
			if got := keyOf(t, bodies[0]); !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(got) {
				t.Errorf("got key %q, want a UUIDv7", got)
			}
			if jobs[0].Duplicate {
				t.Error("the answer to the resend says duplicate, and it is the first job with this key")
			}
		})
	})
	t.Run("a key of the caller stays, and so does its duplicate", func(t *testing.T) {
		spec := client.Spec{Queue: "mail", IdempotencyKey: "mine"}
		jobs, bodies, err := enqueue(t, []try{{200, job, nil}}, spec)
		if err != nil || keyOf(t, bodies[0]) != "mine" || !jobs[0].Duplicate {
			t.Errorf("got %v, %v after %q, want a duplicate of the key mine", jobs, err, bodies)
		}
	})
	t.Run("an error that stays is not tried again", func(t *testing.T) {
		_, bodies, err := enqueue(t, []try{{400, `{"error":{"code":"invalid","message":"queue: is empty"}}`, nil}}, client.Spec{})
		if err == nil || len(bodies) != 1 {
			t.Errorf("got %v after %d tries, want an error after 1", err, len(bodies))
		}
	})
	t.Run("a node that stays away is given up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, bodies, err := enqueue(t, []try{{err: io.ErrUnexpectedEOF}}, client.Spec{Queue: "mail"})
			if !client.Temporary(err) || len(bodies) != 5 {
				t.Errorf("got %v after %d tries, want a temporary error after 5", err, len(bodies))
			}
		})
	})
	t.Run("a caller that gives up is told so, and why it waited", func(t *testing.T) {
		c := answering(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := c.Enqueue(ctx, client.Spec{Queue: "mail"})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "503") {
			t.Errorf("got %v, want context.DeadlineExceeded and the 503", err)
		}
	})
	t.Run("several specs travel as an array with a key each", func(t *testing.T) {
		jobs, bodies, err := enqueue(t, []try{{201, `{"jobs":[{"id":"1"},{"id":"2"}]}`, nil}}, client.Spec{Queue: "a"}, client.Spec{Queue: "b"})
		var specs []client.Spec
		if err != nil || json.Unmarshal([]byte(bodies[0]), &specs) != nil || len(jobs) != 2 {
			t.Fatalf("got %v, %v after %q", jobs, err, bodies)
		}
		if a, b := specs[0].IdempotencyKey, specs[1].IdempotencyKey; a == "" || a == b {
			t.Errorf("got keys %q and %q, want two different ones", a, b)
		}
	})
	t.Run("no spec is no request", func(t *testing.T) {
		jobs, bodies, err := enqueue(t, nil)
		if jobs != nil || err != nil || bodies != nil {
			t.Errorf("got %v, %v, %v, want nothing", jobs, err, bodies)
		}
	})
}
