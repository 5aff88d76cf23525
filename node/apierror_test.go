package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/queue"
)

func TestErrorsOfTheStore(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		code   client.Code
		part   string
	}{
		{"a bad field", &queue.SpecError{Field: "priority", Reason: "too high"}, 400, client.CodeInvalid, "priority: too high"},
		{"a large payload", &queue.TooLargeError{Field: "payload", Limit: 10, Size: 11}, 413, client.CodeTooLarge, "payload is 11 bytes"},
		{"a used key", queue.ErrIdempotencyConflict, 409, client.CodeIdempotencyConflict, "another body"},
		{"a full disk", queue.ErrDiskFull, 507, client.CodeDiskFull, "disk"},
		{"an unknown outcome", queue.ErrUnknownOutcome, 503, client.CodeUnknownOutcome, "unknown"},
		{"what comes after an unknown outcome", fmt.Errorf("%w: %w", queue.ErrClosed, queue.ErrUnknownOutcome), 503, client.CodeUnavailable, "closed"},
		{"a closed queue", queue.ErrClosed, 503, client.CodeUnavailable, "closed"},
		{"a request cut off", context.Canceled, 503, client.CodeUnknownOutcome, "cut off"},
		{"anything else", errors.New("disk i/o error at sector 7"), 500, client.CodeInternal, "internal error"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" is "+string(tt.code), func(t *testing.T) {
			f := over(t, &stub{enqueue: func([]queue.Spec) ([]queue.Enqueued, error) {
				return nil, fmt.Errorf("enqueue: %w", tt.err)
			}})
			w := f.send("POST", "/v1/jobs", `{"queue":"mail","payload":"secret"}`)
			if got := w.Header().Get("Holdfast-Seq"); got != "3.14" {
				t.Errorf("Holdfast-Seq: got %q, want 3.14", got)
			}
			if got, want := w.Header().Get("Retry-After") != "", tt.status == 503; got != want {
				t.Errorf("Retry-After: got %t, want %t", got, want)
			}
			wantError(t, w, tt.status, tt.code, tt.part)
			logged := f.log.String()
			if got, want := strings.Contains(logged, "sector 7"), tt.code == client.CodeInternal; got != want {
				t.Errorf("the cause in the log: got %t, want %t: %s", got, want, logged)
			}
			if strings.Contains(logged, "secret") {
				t.Errorf("the log has the payload: %s", logged)
			}
		})
	}
	t.Run("a read that takes too long is unavailable", func(t *testing.T) {
		f := over(t, &stub{job: func(int64) (queue.Job, error) { return queue.Job{}, fmt.Errorf("read: %w", context.DeadlineExceeded) }})
		wantError(t, f.send("GET", "/v1/jobs/7", ""), http.StatusServiceUnavailable, client.CodeUnavailable, "too long")
	})
	t.Run("what a hang-up breaks is not an error of the node", func(t *testing.T) {
		f := over(t, &stub{job: func(int64) (queue.Job, error) { return queue.Job{}, errors.New("interrupted (9)") }})
		ctx, hangUp := context.WithCancel(context.Background())
		hangUp()
		f.api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", base+"/v1/jobs/7", nil).WithContext(ctx))
		if f.log.Len() > 0 {
			t.Errorf("log: got %s", f.log)
		}
	})
	t.Run("the cause of an internal error stays here", func(t *testing.T) {
		f := over(t, &stub{job: func(int64) (queue.Job, error) { return queue.Job{}, errors.New("sector 7") }})
		if w := f.send("GET", "/v1/jobs/7", ""); strings.Contains(w.Body.String(), "sector") {
			t.Errorf("got %s", w.Body)
		}
	})
	t.Run("an internal error fails its item alone", func(t *testing.T) {
		f := over(t, &stub{ack: func([]queue.Ack) ([]queue.Result, error) {
			return []queue.Result{{ID: 1, State: queue.StateDone}, {ID: 2, Err: errors.New("sector 7")}}, nil
		}})
		got := call[client.Results](f, http.StatusOK, "POST", "/v1/acks", `{"acks":[{"lease":"a"},{"lease":"b"}]}`).Results
		if !got[0].OK || got[1].OK || got[1].Error == nil || got[1].Error.Code != "internal" || strings.Contains(got[1].Error.Message, "sector") {
			t.Errorf("got %+v", got)
		}
		if !strings.Contains(f.log.String(), "sector 7") {
			t.Errorf("the log has no cause: %s", f.log)
		}
	})
}
