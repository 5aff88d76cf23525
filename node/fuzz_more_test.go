package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

// taker is a store that takes everything, and notes what came.
type taker struct {
	node.Store
	t     *testing.T
	calls int
}

func (s *taker) Seq() queue.Seq { return stubSeq }

func (s *taker) taken(n int) ([]queue.Result, queue.Seq, error) {
	s.calls++
	return make([]queue.Result, n), stubSeq, nil
}

func (s *taker) within(what string, d, low, high time.Duration) {
	s.t.Helper()
	if d < low || d > high {
		s.t.Errorf("%s: %s is out of range", what, d)
	}
}

func (s *taker) valid(what string, text json.RawMessage) {
	s.t.Helper()
	if len(text) > 0 && (!json.Valid(text) || client.Nesting(text) > client.MaxNesting) {
		s.t.Errorf("%s: %q got through", what, text)
	}
}

func (s *taker) Ack(_ context.Context, acks []queue.Ack) ([]queue.Result, queue.Seq, error) {
	for _, a := range acks {
		s.valid("result", a.Result)
	}
	return s.taken(len(acks))
}

func (s *taker) Fail(_ context.Context, fails []queue.Fail) ([]queue.Result, queue.Seq, error) {
	for _, f := range fails {
		if f.RetryIn != nil {
			s.within("retry_in_ms", *f.RetryIn, 0, queue.MaxDelay)
		}
	}
	return s.taken(len(fails))
}

func (s *taker) Release(_ context.Context, leases []string) ([]queue.Result, queue.Seq, error) {
	return s.taken(len(leases))
}

func (s *taker) Snooze(_ context.Context, snoozes []queue.Snooze) ([]queue.Result, queue.Seq, error) {
	for _, z := range snoozes {
		s.within("delay_ms", z.Delay, 0, queue.MaxDelay)
	}
	return s.taken(len(snoozes))
}

func (s *taker) Extend(_ context.Context, extends []queue.Extend) ([]queue.Result, queue.Seq, error) {
	for _, e := range extends {
		s.valid("progress", e.Progress)
		if e.For != 0 {
			s.within("lease_ms", e.For, queue.MinLease, queue.MaxLease)
		}
	}
	return s.taken(len(extends))
}

func (s *taker) Job(_ context.Context, id int64) (queue.Job, error) {
	s.calls++
	if id < 0 {
		s.t.Errorf("id %d", id)
	}
	return queue.Job{ID: id, State: queue.StateDead}, nil
}

func (s *taker) Wait(ctx context.Context, id int64, d time.Duration) (queue.Job, error) {
	s.within("wait_ms", d, 0, queue.MaxWait)
	return s.Job(ctx, id)
}

func (s *taker) Retry(ctx context.Context, id int64, payload json.RawMessage) (queue.Job, queue.Seq, error) {
	s.valid("payload", payload)
	j, err := s.Job(ctx, id)
	return j, stubSeq, err
}

func (s *taker) Cancel(ctx context.Context, id int64) (queue.Job, queue.Seq, error) {
	j, err := s.Job(ctx, id)
	return j, stubSeq, err
}

func (s *taker) RetryDead(_ context.Context, f queue.Filter, _ bool) (queue.Bulk, queue.Seq, error) {
	s.calls++
	if f.Limit < 0 || f.Limit > queue.MaxPage || !f.FinishedSince.IsZero() && f.FinishedSince.UnixMilli() < 0 {
		s.t.Errorf("out of range: %+v", f)
	}
	return queue.Bulk{}, stubSeq, nil
}

// Queues is asked before a queue is changed, and is no change.
func (s *taker) Queues(context.Context) ([]queue.Info, error) {
	return []queue.Info{{Name: "mail", Settings: queue.Settings{Retention: map[queue.State]queue.Retention{queue.StateDone: {Age: time.Hour}}}}}, nil
}

func (s *taker) UpdateQueue(_ context.Context, name string, p queue.Patch) (queue.Info, queue.Seq, error) {
	if err := p.Validate(); err != nil { // as a queue does
		return queue.Info{}, queue.Seq{}, err
	}
	s.calls++
	return queue.Info{Name: name}, stubSeq, nil
}

func (s *taker) Throughput(context.Context, string, time.Time) ([]queue.Minute, error) {
	s.calls++
	return nil, nil
}

// wantTaken checks that a request was taken by the store if and only if it was
// answered with success.
func wantTaken(t *testing.T, r *http.Request) {
	t.Helper()
	s := &taker{t: t}
	f := over(t, s)
	w := f.serve(r)
	if w.Code == http.StatusConflict { // a lease of another job, in a single form
		return
	}
	wantAnswer(t, w.Code, w.Body.Bytes())
	if (w.Code < 300) != (s.calls > 0) {
		t.Errorf("status %d after %d calls: %s", w.Code, s.calls, w.Body)
	}
}

// FuzzBodies sends bodies to all routes that read one, but those that have a
// fuzz test of their own.
func FuzzBodies(f *testing.F) {
	paths := []string{
		"POST /v1/acks", "POST /v1/fails", "POST /v1/releases", "POST /v1/snoozes", "POST /v1/extends",
		"POST /v1/jobs/7/ack", "POST /v1/jobs/7/fail", "POST /v1/jobs/7/release", "POST /v1/jobs/7/snooze", "POST /v1/jobs/7/extend",
		"POST /v1/jobs/7/retry", "POST /v1/jobs/7/cancel", "POST /v1/dead/retry", "PATCH /v1/queues/mail", "POST /v1/queues/mail/pause",
	}
	for i, seed := range []string{
		`{"acks":[{"lease":"1.7.1.x","result":{"a":[1]}}],"durability":"local"}`, `{"fails":[{"lease":"x","error":"e","retry_in_ms":null,"fatal":true}]}`,
		`{"releases":[{"lease":"1.2.3.x"}]}`, `{"snoozes":[{"lease":"x","delay_ms":1}]}`, `{"extends":[{"lease":"x","lease_ms":1000,"progress":[[1]]}]}`,
		`{"lease":"1.7.1.x","result":null}`, `{"lease":"1.7.1.x","retry_in_ms":315360000000}`, `{"lease":"1.7.1.x"}`, `{"lease":"1.7.1.x","delay_ms":-1}`,
		`{"lease":"1.7.1.x","lease_ms":9223372036854775807}`, `{"payload":{"a":"\ud800"}}`, ` `, `{"queue":"a","since_ms":1,"before_ms":2,"dry_run":true,"limit":3,"after":"1_2"}`,
		`{"create":true,"max_attempts":null,"backoff":{"kind":"list","delays_ms":[1]},"retention_ms":{"done":-1,"dead":null},"keep_last":{"done":5}}`, `{}`,
	} {
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		method, path, _ := strings.Cut(paths[int(which)%len(paths)], " ")
		wantTaken(t, httptest.NewRequest(method, base+path, strings.NewReader(body)))
	})
}

// FuzzPaths sends ids and numbers.
func FuzzPaths(f *testing.F) {
	for _, seed := range [][2]string{{"7", "60000"}, {"-1", "-1"}, {"99999999999999999999", "9223372036854775807"}, {"+7", "1e3"}, {"0x7", " 1"}, {"٧", "٧"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, id, number string) {
		for _, target := range []string{"/v1/jobs/7?wait_ms=7", "/v1/queues/mail/throughput?since_ms=7"} {
			r := httptest.NewRequest("GET", base+target, nil)
			if strings.HasPrefix(target, "/v1/jobs") {
				if id == "" || strings.ContainsAny(id, "/") || id == "." || id == ".." {
					continue // another path
				}
				r.URL.Path = "/v1/jobs/" + id
			}
			query := r.URL.Query()
			for name := range query {
				query.Set(name, number)
			}
			r.URL.RawQuery = query.Encode()
			wantTaken(t, r)
		}
	})
}

// FuzzSpecHeaders sends the headers of POST /v1/jobs.
func FuzzSpecHeaders(f *testing.F) {
	for _, seed := range [][2]string{
		{"key", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{`"a\"b\\"`, "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"},
		{`"`, "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01"},
		{"", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, trace string) {
		var got []queue.Spec
		api := over(t, &stub{enqueue: func(specs []queue.Spec) ([]queue.Enqueued, error) {
			got = specs
			return make([]queue.Enqueued, len(specs)), nil
		}})
		w := api.with([]string{"Idempotency-Key", key, "Traceparent", trace}, "POST", "/v1/jobs", `{"queue":"mail"}`)
		wantAnswer(t, w.Code, w.Body.Bytes())
		if (w.Code < 300) != (len(got) == 1) {
			t.Fatalf("status %d with %d specs", w.Code, len(got))
		}
		if len(got) == 1 && (got[0].IdempotencyKey == "" || got[0].Traceparent != "" && got[0].Traceparent != trace || len(got[0].Traceparent) > queue.MaxTraceparent) {
			t.Errorf("got %+v", got[0])
		}
	})
}
