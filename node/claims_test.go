package node_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/queue"
)

// brokenWriter is a connection that fails at one of the two steps of an answer.
type brokenWriter struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return w.ResponseRecorder.Write(p)
}

func (w *brokenWriter) FlushError() error { return w.flush }

func TestClaimWhoseClientIsGone(t *testing.T) {
	broken := errors.New("broken pipe")
	tests := []struct {
		name     string
		hangUp   bool // before the answer
		writer   brokenWriter
		released []string
	}{
		{"jobs of a delivered answer stay with it", false, brokenWriter{}, nil},
		{"jobs are released when the client hung up before the answer", true, brokenWriter{}, []string{"3.7.1.x", "3.8.1.y"}},
		{"jobs are released when writing fails", false, brokenWriter{write: broken}, []string{"3.7.1.x", "3.8.1.y"}},
		{"jobs are released when flushing fails", false, brokenWriter{flush: broken}, []string{"3.7.1.x", "3.8.1.y"}},
		{"jobs stay where flushing is not known", false, brokenWriter{flush: http.ErrNotSupported}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, hangUp := context.WithCancel(context.Background())
			defer hangUp()
			var released []string
			f := over(t, &stub{
				claim: func(context.Context, queue.ClaimRequest) (queue.Claims, error) {
					if tt.hangUp {
						hangUp()
					}
					return queue.Claims{Jobs: []queue.Claimed{{ID: 7, Lease: "3.7.1.x"}, {ID: 8, Lease: "3.8.1.y"}}}, nil
				},
				release: func(ctx context.Context, leases []string) ([]queue.Result, error) {
					released = append(released, leases...)
					return make([]queue.Result, len(leases)), ctx.Err()
				},
			})
			tt.writer.ResponseRecorder = httptest.NewRecorder()
			r := httptest.NewRequest("POST", base+"/v1/claims", strings.NewReader(`{"queues":["mail"],"max":2}`))
			f.api.ServeHTTP(&tt.writer, r.WithContext(ctx))
			if !slices.Equal(released, tt.released) {
				t.Errorf("released: got %v, want %v", released, tt.released)
			}
			if strings.Contains(f.log.String(), "stay leased") {
				t.Errorf("release failed: %s", f.log)
			}
			if tt.hangUp && tt.writer.Body.Len() > 0 {
				t.Errorf("an answer was written for no one: %s", tt.writer.Body)
			}
		})
	}
	t.Run("a release that fails is logged", func(t *testing.T) {
		f := over(t, &stub{
			claim: func(context.Context, queue.ClaimRequest) (queue.Claims, error) {
				return queue.Claims{Jobs: []queue.Claimed{{ID: 7, Lease: "3.7.1.x"}}}, nil
			},
			release: func(context.Context, []string) ([]queue.Result, error) { return nil, queue.ErrClosed },
		})
		w := &brokenWriter{ResponseRecorder: httptest.NewRecorder(), write: broken}
		f.api.ServeHTTP(w, httptest.NewRequest("POST", base+"/v1/claims", strings.NewReader(`{"queues":["mail"]}`)))
		if log := f.log.String(); !strings.Contains(log, "stay leased") || !strings.Contains(log, "job=7") {
			t.Errorf("log: got %q", log)
		}
	})
}

func TestClaimTellsThatTheNodeStops(t *testing.T) {
	f := over(t, &stub{claim: func(context.Context, queue.ClaimRequest) (queue.Claims, error) { return queue.Claims{}, nil }})
	claim := func() client.Claims {
		return call[client.Claims](f, http.StatusOK, "POST", "/v1/claims", `{"queues":["mail"],"wait_ms":1000}`)
	}
	if got := claim(); got.Stopping {
		t.Error("a node that serves says that it stops")
	}
	f.api.Stop()
	if got := claim(); !got.Stopping || got.Jobs == nil {
		t.Errorf("got %+v, want stopping and an empty list", got)
	}
}

func TestClientKnowsTheLimits(t *testing.T) {
	for name, limits := range map[string][2]int64{
		"MaxResult": {client.MaxResult, queue.MaxResult},
		"MaxError":  {client.MaxError, queue.MaxError},
		"MaxItems":  {client.MaxItems, min(queue.MaxBatch, queue.MaxClaim)},
		"MaxQueues": {client.MaxQueues, queue.MaxQueuesInClaim},
		"MaxName":   {client.MaxName, queue.MaxName},
		"MinLease":  {int64(client.MinLease), int64(queue.MinLease)},
		"MaxLease":  {int64(client.MaxLease), int64(queue.MaxLease)},
	} {
		if limits[0] != limits[1] {
			t.Errorf("%s: the client has %d, the queue %d", name, limits[0], limits[1])
		}
	}
}
