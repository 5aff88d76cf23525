package node_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/queue"
	"holdfast/replicate"
)

// supervisor keeps what it is told.
type supervisor struct {
	period time.Duration
	mu     sync.Mutex
	said   []string
	beats  atomic.Int64
}

func (s *supervisor) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.said) == 0 || s.said[len(s.said)-1] != text {
		s.said = append(s.said, text)
	}
}

func (s *supervisor) Starting(reason string) { s.say("starting: " + reason) }
func (s *supervisor) Serving(status string)  { s.say("serving: " + status) }
func (s *supervisor) Stopping(time.Duration) { s.say("stopping") }
func (s *supervisor) Alive()                 { s.beats.Add(1) }
func (s *supervisor) Period() time.Duration  { return s.period }
func (s *supervisor) has(text string) bool   { return strings.Contains(s.all(), text) }
func (s *supervisor) waitBeats(t *testing.T) { // three more
	t.Helper()
	from := s.beats.Load()
	await(t, "the watchdog to be fed", func() bool { return s.beats.Load() >= from+3 })
}

func (s *supervisor) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said, "\n")
}

// await waits until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestSupervisor(t *testing.T) {
	t.Run("ready is said when the queue is open, and not before", func(t *testing.T) {
		opening, goOn := make(chan struct{}), make(chan struct{})
		s := &supervisor{}
		cfg := node.WithOpen(node.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Supervisor: s},
			func(context.Context, string, queue.Options) (node.Engine, error) {
				close(opening)
				<-goOn
				return newEngine(), nil
			})
		ctx, stop := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return node.Run(ctx, cfg) })
		<-opening
		await(t, "a sign of the boot", func() bool { return s.has("starting: the database is being opened") })
		if s.has("serving") {
			t.Errorf("before the queue was open: %s", s.all())
		}
		close(goOn)
		await(t, "ready", func() bool { return s.has("serving: serving http://127.0.0.1:") })
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if said := strings.Split(s.all(), "\n"); said[len(said)-1] != "stopping" {
			t.Errorf("the last word was %q, want stopping", said[len(said)-1])
		}
	})
	t.Run("a standby is ready, and says whose standby it is", func(t *testing.T) {
		s := &supervisor{}
		cfg := node.WithAcquire(node.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", Supervisor: s},
			func(ctx context.Context, opts replicate.Options) (node.Primary, error) {
				opts.Standby(replicate.Lock{Node: "first", URL: "http://127.0.0.1:1"})
				<-ctx.Done()
				return nil, ctx.Err()
			})
		ctx, stop := context.WithCancel(t.Context())
		var g errgroup.Group
		g.Go(func() error { return node.Run(ctx, cfg) })
		await(t, "the standby", func() bool { return s.has(`serving: standby: node "first" is the primary`) })
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestWatchdogIsFedByTheWriter(t *testing.T) {
	e := newEngine()
	var stuck atomic.Bool
	asked := make(chan struct{})
	e.alive = func(ctx context.Context) error {
		if !stuck.Load() {
			return nil
		}
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	s := &supervisor{period: 30 * time.Millisecond}
	cfg := with(t, e)
	cfg.Supervisor = s
	n := start(t, cfg)
	s.waitBeats(t)

	stuck.Store(true)
	hangs := func() {
		t.Helper()
		select {
		case <-asked:
		case <-time.After(30 * time.Second):
			t.Fatal("the writer is not asked")
		}
	}
	hangs() // what was asked before it hung had its answer
	before := s.beats.Load()
	for range 5 {
		hangs()
	}
	if after := s.beats.Load(); after != before {
		t.Errorf("the writer hangs, and the watchdog was fed %d times", after-before)
	}
	stuck.Store(false)
	select {
	case <-asked: // it was being asked once more
	case <-time.After(2 * s.period):
	}
	s.waitBeats(t)
	if err := n.stop(); err != nil {
		t.Error(err)
	}
}

func TestHandedOverSocket(t *testing.T) {
	t.Run("connections that came before the node wait until it is ready", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		answered := make(chan int, 1)
		var g errgroup.Group
		g.Go(func() error {
			resp, err := http.Get(url + "/v1/queues")
			if err != nil {
				close(answered)
				return err
			}
			answered <- resp.StatusCode
			return resp.Body.Close()
		})
		n := start(t, node.Config{Data: t.TempDir(), Listener: l})
		if n.url != url {
			t.Errorf("got %s, want %s", n.url, url)
		}
		if got := <-answered; got != http.StatusOK {
			t.Errorf("got %d, want 200", got)
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("one that is not TCP is refused", func(t *testing.T) {
		l, err := net.Listen("unix", t.TempDir()+"/s")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		err = node.Run(t.Context(), node.Config{Data: t.TempDir(), Listener: l})
		if err == nil || !strings.Contains(err.Error(), "ListenStream=") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("one beyond loopback obeys the rule of --listen", func(t *testing.T) {
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err = node.Run(t.Context(), node.Config{Data: t.TempDir(), Listener: l}); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("got %v", err)
		}
	})
}
