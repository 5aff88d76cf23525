package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	bootTime = 10 * time.Second // a child must be ready within it
	stopTime = 10 * time.Second // and gone within it
)

// server is a child process that serves the API on loopback.
type server struct {
	addr   string
	dir    string
	cmd    *exec.Cmd
	env    []string // besides ours
	log    *tail
	keys   atomic.Int64 // the next idempotency key; no two loads share one
	waiter sync.WaitGroup
	done   chan struct{} // closed by the waiter
}

// startServer runs `exe serve` with a data directory of its own below e.dir
// and returns when it is ready. The process dies with ctx.
func startServer(ctx context.Context, e *env, args ...string) (*server, error) {
	dir, err := os.MkdirTemp(e.dir, "node-")
	if err != nil {
		return nil, err
	}
	return startServerIn(ctx, e, dir, nil, args...)
}

// startServerIn is startServer in a directory, with more in the environment.
func startServerIn(ctx context.Context, e *env, dir string, extra []string, args ...string) (*server, error) {
	s, err := launchServer(ctx, e, dir, extra, args...)
	if err != nil {
		return nil, err
	}
	if err := s.waitReady(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", s.cmd, err, s.log)
	}
	return s, nil
}

// launchServer does not wait until the server is ready.
func launchServer(ctx context.Context, e *env, dir string, extra []string, args ...string) (*server, error) {
	return launchCommand(ctx, e, "serve", dir, extra, args...)
}

// launchCommand starts a command that serves the API.
func launchCommand(ctx context.Context, e *env, command, dir string, extra []string, args ...string) (*server, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{addr: addr, dir: dir, log: &tail{}, done: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, e.exe, append([]string{command, "--data", dir, "--listen", addr}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.Env = append(childEnv(), extra...)
	s.cmd.SysProcAttr = dieWithParent()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.waiter.Go(func() {
		_ = s.cmd.Wait() // how it ended shows in the log
		close(s.done)
	})
	return s, nil
}

// kill ends the process. The benchmark has what it wants, so nothing is gained
// by a graceful end.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may be gone already
	s.waiter.Wait()
}

// stop kills the process and removes its files.
func (s *server) stop() {
	s.kill()
	_ = os.RemoveAll(s.dir) // Run removes what is left
}

func (s *server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	for {
		if ready(ctx, s.addr) {
			return nil
		}
		select {
		case <-s.done:
			return errors.New("the process ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// childEnv is our environment without the settings of a node that may run on
// this machine: a benchmark must not touch its data.
func childEnv() []string { return withoutPrefixes(os.Environ(), "HOLDFAST_") }

func withoutPrefixes(env []string, prefixes ...string) []string {
	return slices.DeleteFunc(env, func(kv string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(kv, prefix) })
	})
}

// tail keeps the end of what a child wrote, for the message of an error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 4096

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

// String returns the end of the output.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
