package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// hold is a hold on a root that a test takes away.
type hold struct {
	e      *engine // records the calls
	status replicate.Status
	lost   chan struct{}
	err    error // why it was lost
	stop   error
	start  func(ctx context.Context) error
}

func newHold(e *engine) *hold {
	return &hold{e: e, lost: make(chan struct{}), status: replicate.Status{URL: "s3://bucket/root", Epoch: 3}}
}

func (h *hold) Epoch() int64          { return 3 }
func (h *hold) Lineage() string       { return "" }
func (h *hold) Notify()               {}
func (h *hold) GiveWay()              {}
func (h *hold) Lost() <-chan struct{} { return h.lost }
func (h *hold) CanReplicate() bool    { return false }
func (h *hold) Replicated(context.Context) error {
	return replicate.ErrUnreplicated
}

func (h *hold) Valid() bool {
	select {
	case <-h.lost:
		return false
	default:
		return true
	}
}
func (h *hold) Err() error                 { return h.err }
func (h *hold) Status() replicate.Status   { return h.status }
func (h *hold) Stop(context.Context) error { h.e.record("upload"); return h.stop }

func (h *hold) Start(ctx context.Context, _ func() int64) error {
	h.e.record("start")
	if h.start != nil {
		return h.start(ctx)
	}
	return nil
}

// on returns a configuration whose queue is e and whose hold is h.
func (h *hold) on(t *testing.T) node.Config {
	return node.WithAcquire(with(t, h.e), func(_ context.Context, opts replicate.Options) (node.Primary, error) {
		opts.Taken(replicate.Lock{Session: "abc", Epoch: 3})
		return h, nil
	})
}

func TestReplicaIsStoppedLast(t *testing.T) {
	e := newEngine()
	n := start(t, newHold(e).on(t))
	if err := n.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if got, want := strings.Join(e.recorded(), " "), "start drain close upload"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNothingIsAnsweredAfterTheRootIsLost(t *testing.T) {
	e := newEngine()
	h := newHold(e)
	h.err = fmt.Errorf("%w: node \"b\" has it", replicate.ErrFenced)
	h.stop = fmt.Errorf("stop: %w", h.err)
	e.enqueue = func([]queue.Spec) ([]queue.Enqueued, error) {
		close(h.lost) // while the request is under way
		return []queue.Enqueued{{ID: 7, State: queue.StateQueued}}, nil
	}
	n := start(t, h.on(t))
	got := n.post("/v1/jobs", `{"queue":"mail"}`)
	if got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(got.body), string(client.CodeUnknownOutcome)) {
		t.Errorf("got %d: %s", got.StatusCode, got.body)
	}
	for range 300 { // it ends by itself
		if slices.Contains(e.recorded(), "upload") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	err := n.stop()
	if !errors.Is(err, replicate.ErrFenced) || strings.Count(err.Error(), "has it") != 1 {
		t.Errorf("got %v, want once who has it", err)
	}
}

func TestStopInAnOutage(t *testing.T) {
	h := newHold(newEngine())
	h.status.Seq, h.status.ReplicatedSeq = 9, 7
	h.stop = &replicate.RemoteError{Kind: replicate.RemoteUnreachable, Err: errors.New("refused")}
	n := start(t, h.on(t))
	if err := n.stop(); err == nil || !strings.Contains(err.Error(), "up to 7 of 9") {
		t.Errorf("got %v, want what is missing", err)
	}
}

func TestStopWhileTheBaseIsUploaded(t *testing.T) {
	e := newEngine()
	h := newHold(e)
	uploading := make(chan struct{})
	h.start = func(ctx context.Context) error { close(uploading); <-ctx.Done(); return ctx.Err() }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { <-uploading; cancel(); return nil })
	if err := node.Run(ctx, h.on(t)); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(e.recorded(), " "), "start close upload"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhileTheRootIsTaken(t *testing.T) {
	step := make(chan func(replicate.Options))
	cfg := node.WithAcquire(with(t, newEngine()), func(_ context.Context, opts replicate.Options) (node.Primary, error) {
		for do := range step {
			do(opts)
		}
		return nil, fmt.Errorf("%w: node %q has it", replicate.ErrHeld, "b")
	})
	cfg.Listen = freeAddr(t)
	cfg.Node, cfg.Advertise = "a", "http://a.example:7780"
	var g errgroup.Group
	g.Go(func() error { return node.Run(context.Background(), cfg) })
	get := func(path string) string { return body(t, "http://"+cfg.Listen+path) }
	step <- func(replicate.Options) {}
	if got := get("/v1/node"); !strings.Contains(got, "starting") {
		t.Errorf("before it has a session: %s", got)
	}
	for _, tt := range []struct {
		do         func(replicate.Options)
		path, want string
	}{
		{func(o replicate.Options) { o.Waiting(errors.New("no route")) }, "/readyz", "waiting for the bucket: no route"},
		{func(o replicate.Options) { o.Progress(replicate.Progress{Bytes: 12e6, Total: 40e6}) }, "/readyz", "restoring: 12 MB of 40 MB"},
		{func(o replicate.Options) { o.Taken(replicate.Lock{Session: "abc", Epoch: 7}) }, "/v1/node", `{"node":"a","role":"primary","session":"abc","epoch":7,"url":"http://a.example:7780"}`},
		{func(replicate.Options) {}, "/healthz", "ok"},
		{func(replicate.Options) {}, "/v1/queues", "starting"},
		{func(replicate.Options) {}, "/metrics", "holdfast_build_info{"},
	} {
		step <- tt.do
		step <- func(replicate.Options) {} // tt.do has returned
		if got := get(tt.path); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.path, got, tt.want)
		}
	}
	close(step)
	if err := g.Wait(); !errors.Is(err, replicate.ErrHeld) {
		t.Errorf("run: got %v, want %v", err, replicate.ErrHeld)
	}
	http.DefaultClient.CloseIdleConnections()
}

func body(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReplicationOnTheWire(t *testing.T) {
	f := over(t, &stub{enqueue: func([]queue.Spec) ([]queue.Enqueued, error) {
		return []queue.Enqueued{{ID: 7, State: queue.StateQueued}}, nil
	}})
	wantError(t, f.send("GET", "/v1/replication", ""), http.StatusNotFound, client.CodeNotFound, "does not replicate")
	if got := f.send("POST", "/v1/jobs", `{"queue":"q"}`).Header().Get("Holdfast-Replicated-Seq"); got != "" {
		t.Errorf("without a replica: Holdfast-Replicated-Seq %q", got)
	}
	h := newHold(newEngine())
	f.api.Replicate(h)
	h.status = replicate.Status{
		Epoch: 3, URL: "s3://bucket/root", Seq: 14, ReplicatedSeq: 12, TXID: 500, PendingSince: time.Now().Add(-90 * time.Second),
		LastError: "no route", LastErrorAt: time.Now(), Requests: replicate.Requests{Put: 4, Get: 3, List: 2, Delete: 1},
	}
	st := call[client.ReplicationStatus](f, http.StatusOK, "GET", "/v1/replication", "")
	if st.TXID != "00000000000001f4" || *st.ReplicatedSeq != 12 || st.Seq != 14 || st.LagMS < 90_000 || *st.LastError != "no route" || st.LastSyncAtMS != nil ||
		st.Requests != (client.Requests{Put: 4, Get: 3, List: 2, Delete: 1}) {
		t.Errorf("got %+v", st)
	}
	if got := f.send("POST", "/v1/jobs", `{"queue":"q"}`).Header().Get("Holdfast-Replicated-Seq"); got != "3.12" {
		t.Errorf("Holdfast-Replicated-Seq: got %q, want 3.12", got)
	}
	ready := call[client.Ready](f, http.StatusOK, "GET", "/readyz", "")
	if !ready.Ready || len(ready.Warnings) != 1 || !strings.Contains(ready.Warnings[0], "in the last 1m30s is on this disk only: no route") {
		t.Errorf("readyz: got %+v", ready)
	}
	h.status.LastError, h.status.PendingSince = "", time.Time{}
	if ready := call[client.Ready](f, http.StatusOK, "GET", "/readyz", ""); len(ready.Warnings) != 0 {
		t.Errorf("readyz: got %+v", ready)
	}
	close(h.lost)
	for _, path := range []string{"/v1/jobs", "/v1/node", "/v1/replication", "/readyz"} {
		if w := f.send("GET", path, ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s of a node that lost its place: got %d, want 503", path, w.Code)
		}
	}
}

func TestInspect(t *testing.T) {
	n := start(t, node.Config{Data: t.TempDir()})
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(foreign, []byte(strings.Repeat("hello ", 1000)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{empty: replicate.ErrNoDatabase, foreign: replicate.ErrForeign} {
		if _, err := node.Inspect(context.Background(), path); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", filepath.Base(path), err, want)
		}
	}
}

func TestNeverPrimary(t *testing.T) {
	tests := map[string]struct {
		env    map[string]string
		reason string // "": it may be
	}{
		"elsewhere it may be":             {nil, ""},
		"in the primary's region too":     {map[string]string{"FLY_REGION": "ams", "PRIMARY_REGION": "ams"}, ""},
		"and where none is named":         {map[string]string{"FLY_REGION": "ams"}, ""},
		"not in another region":           {map[string]string{"FLY_REGION": "fra", "PRIMARY_REGION": "ams"}, "region fra"},
		"not in a release command":        {map[string]string{"RELEASE_COMMAND": "1"}, "RELEASE_COMMAND"},
		"not in a console":                {map[string]string{"FLY_PROCESS_GROUP": "fly_app_console"}, "console"},
		"but in another group of the app": {map[string]string{"FLY_PROCESS_GROUP": "app"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := node.NeverPrimary(func(name string) string { return tt.env[name] })
			if tt.reason == "" && err != nil || tt.reason != "" && (!errors.Is(err, node.ErrRefused) || !strings.Contains(err.Error(), tt.reason)) {
				t.Errorf("got %v, want %q", err, tt.reason)
			}
		})
	}
}
