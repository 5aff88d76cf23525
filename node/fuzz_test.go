package node_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/queue"
)

// wantAnswer checks what every answer to any input is: a success, or an error
// of the client's that says what is wrong.
func wantAnswer(t *testing.T, status int, body []byte) {
	t.Helper()
	if status == http.StatusOK || status == http.StatusCreated {
		return
	}
	var e client.ErrorAnswer
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("status %d: %v: %s", status, err, body)
	}
	if status != http.StatusBadRequest || e.Error.Message == "" || strings.Contains(e.Error.Message, "expected form") {
		t.Errorf("got status %d, %+v", status, e.Error)
	}
}

func FuzzEnqueueBody(f *testing.F) {
	for _, seed := range []string{
		`{"queue":"mail"}`, `[{"queue":"a","payload":{"to":[1,2.5,null]},"tags":{"k":"v"}},{"QUEUE":"b"}]`,
		`{"queue":"a","backoff":{"kind":"list","delays_ms":[1,2]},"run_at_ms":1790000000000}`,
		`{"queue":"a","delay_ms":18446744073709}`, `{"queue":7}`, `[null]`, `null`, `{"x":{"queue":[]}}`, "{\"queue\":\"\xff\"}", `{"queue":"\ud800"}`, `[`, ``, `{} x`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var got []queue.Spec
		api := over(t, &stub{enqueue: func(specs []queue.Spec) ([]queue.Enqueued, error) {
			got = specs
			return make([]queue.Enqueued, len(specs)), nil
		}})
		w := api.send("POST", "/v1/jobs", body)
		wantAnswer(t, w.Code, w.Body.Bytes())
		if (w.Code < 300) != (got != nil) {
			t.Errorf("status %d with %d specs", w.Code, len(got))
		}
		for _, spec := range got {
			if spec.Delay < 0 || spec.Delay > queue.MaxDelay || spec.Timeout < 0 || spec.Timeout > queue.MaxTimeout {
				t.Errorf("out of range: %+v", spec)
			}
			if len(spec.Payload) > 0 && !json.Valid(spec.Payload) {
				t.Errorf("payload is not JSON: %q", spec.Payload)
			}
		}
	})
}

func FuzzClaimBody(f *testing.F) {
	for _, seed := range []string{
		`{"queues":["a","b"],"max":10,"wait_ms":60000,"lease_ms":1000,"worker":"w","acks":[{"lease":"1.2.3.x","result":{}}]}`,
		`{"queues":["a"],"fails":[{"lease":"x","error":"e","retry_in_ms":0,"fatal":true},{"retry_in_ms":null}]}`,
		`{"queues":"a"}`, `{"queues":[1]}`, `{"wait_ms":9223372036854775807}`, `{"lease_ms":-1}`, `[]`, `{"acks":{}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var req *queue.ClaimRequest
		api := over(t, &stub{claim: func(_ context.Context, r queue.ClaimRequest) (queue.Claims, error) {
			req = &r
			return queue.Claims{}, nil
		}})
		w := api.send("POST", "/v1/claims", body)
		wantAnswer(t, w.Code, w.Body.Bytes())
		if (w.Code < 300) != (req != nil) {
			t.Fatalf("status %d, claim %v", w.Code, req)
		}
		if req == nil {
			return
		}
		if req.Wait < 0 || req.Wait > queue.MaxWait || req.Lease != 0 && (req.Lease < queue.MinLease || req.Lease > queue.MaxLease) {
			t.Errorf("out of range: %+v", req)
		}
		for _, fail := range req.Fails {
			if fail.RetryIn != nil && (*fail.RetryIn < 0 || *fail.RetryIn > queue.MaxDelay) {
				t.Errorf("out of range: %+v", fail)
			}
		}
	})
}

func FuzzListQuery(f *testing.F) {
	for _, seed := range []string{
		"queue=a&state=dead&type=t&tag=k:v&error=0123456789abcdef&after=7&limit=1000&payload=true&archived=false",
		"limit=0", "limit=-1", "limit=99999999999999999999", "state=", "queue=a&queue=b", "%zz", "a;b", "payload=yes", "=&=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if _, err := url.Parse(base + "/v1/jobs?" + query); err != nil || strings.ContainsAny(query, " #\r\n\t") {
			t.Skip("not a query that HTTP carries")
		}
		var filter *queue.Filter
		api := over(t, &stub{jobs: func(got queue.Filter) (queue.Page, error) {
			filter = &got
			return queue.Page{}, nil
		}})
		w := api.send("GET", "/v1/jobs?"+query, "")
		wantAnswer(t, w.Code, w.Body.Bytes())
		if (w.Code < 300) != (filter != nil) {
			t.Fatalf("status %d, filter %v", w.Code, filter)
		}
		if filter != nil && (filter.Limit < 0 || filter.Limit > queue.MaxPage) {
			t.Errorf("out of range: %+v", filter)
		}
	})
}
