package node_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/queue"
)

// engine is a queue that records what the node does with it, and fails when
// told to.
type engine struct {
	stub
	mu     sync.Mutex
	calls  []string
	failed chan struct{}
	err    error
	alive  func(context.Context) error // nil: it is
}

func newEngine() *engine { return &engine{failed: make(chan struct{})} }

func (e *engine) record(call string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, call)
}

func (e *engine) recorded() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

func (e *engine) DrainClaims()            { e.record("drain") }
func (e *engine) Failed() <-chan struct{} { return e.failed }
func (e *engine) Err() error              { return e.err }
func (e *engine) Close() error            { e.record("close"); return nil }

func (e *engine) Alive(ctx context.Context) error {
	if e.alive == nil {
		return nil
	}
	return e.alive(ctx)
}

// with returns a configuration whose queue is e.
func with(t *testing.T, e *engine) node.Config {
	return node.WithOpen(node.Config{Data: t.TempDir(), Listen: "127.0.0.1:0"},
		func(context.Context, string, queue.Options) (node.Engine, error) { return e, nil })
}

func TestServesWhileOpening(t *testing.T) {
	before := runtime.NumGoroutine()
	addr := freeAddr(t)
	opening := make(chan struct{})
	cfg := node.WithOpen(node.Config{Data: t.TempDir(), Listen: addr},
		func(ctx context.Context, _ string, _ queue.Options) (node.Engine, error) {
			close(opening)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return node.Run(ctx, cfg) })
	<-opening
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/v1/queues": 503, "/version": 200} {
		resp, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Errorf("a stop while opening: got %v, want nil", err)
	}
	http.DefaultClient.CloseIdleConnections()
	wantGoroutines(t, before)
}

func TestStopOrder(t *testing.T) {
	e := newEngine()
	inside := make(chan struct{})
	e.job = func(int64) (queue.Job, error) {
		close(inside)
		for !slices.Contains(e.recorded(), "drain") {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // the server waits for this request
		e.record("answer")
		return queue.Job{ID: 7, State: queue.StateQueued}, nil
	}
	n := start(t, with(t, e))
	var g errgroup.Group
	g.Go(func() error {
		resp, err := n.client.Get(n.url + "/v1/jobs/7")
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got %d, want 200", resp.StatusCode)
		}
		return resp.Body.Close()
	})
	<-inside
	if err := n.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if err := g.Wait(); err != nil {
		t.Errorf("a request under way was cut off: %v", err)
	}
	if got, want := strings.Join(e.recorded(), " "), "drain answer close"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStopCutsOffAfterTheGraceTime(t *testing.T) {
	e := newEngine()
	inside := make(chan struct{})
	e.claim = func(ctx context.Context, _ queue.ClaimRequest) (queue.Claims, error) {
		close(inside)
		<-ctx.Done() // only a cut connection ends it
		return queue.Claims{}, ctx.Err()
	}
	cfg := with(t, e)
	cfg.ShutdownGrace = 100 * time.Millisecond
	n := start(t, cfg)
	var g errgroup.Group
	g.Go(func() error {
		resp, err := n.client.Post(n.url+"/v1/claims", "", strings.NewReader(`{"queues":["mail"],"wait_ms":60000}`))
		if err == nil {
			t.Errorf("got %d, want no answer", resp.StatusCode)
			return resp.Body.Close()
		}
		return nil
	})
	<-inside
	began := time.Now()
	if err := n.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(e.recorded(), " "), "drain close"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRunEndsWhenTheQueueFails(t *testing.T) {
	e := newEngine()
	n := start(t, with(t, e))
	e.err = errors.New("disk i/o error")
	close(e.failed)
	for range 200 { // by itself, without being asked to stop
		if slices.Contains(e.recorded(), "close") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got, want := strings.Join(e.recorded(), " "), "drain close"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := n.stop(); !errors.Is(err, e.err) {
		t.Errorf("got %v, want %v", err, e.err)
	}
}

func TestOpenErrorEndsRun(t *testing.T) {
	broken := errors.New("no such device")
	cfg := node.WithOpen(node.Config{Data: t.TempDir(), Listen: "127.0.0.1:0"},
		func(context.Context, string, queue.Options) (node.Engine, error) { return nil, broken })
	for range 2 { // the second finds neither lock nor port held
		if err := node.Run(context.Background(), cfg); !errors.Is(err, broken) {
			t.Errorf("got %v, want %v", err, broken)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	n := start(t, with(t, newEngine()))
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(n.url, "http://")
}
