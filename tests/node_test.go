package tests_test

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bootTime is how long a node on an empty directory may take from exec to
// ready.
const bootTime = 2 * time.Second

// process is a started binary.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	out     *output
	started time.Time
	waiter  sync.WaitGroup
	exited  chan struct{} // closed by the waiter
}

// output collects what a process writes, stdout and stderr alike.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// cleanEnv is the environment without what would reach nodes and clients under
// test, settings of ours and keys of a bucket, plus extra.
func cleanEnv(extra ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		foreign := func(prefix string) bool { return strings.HasPrefix(kv, prefix) }
		if !slices.ContainsFunc([]string{"HOLDFAST_", "AWS_", "FLY_", "PRIMARY_REGION=", "RELEASE_COMMAND="}, foreign) {
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

// launch starts cmd and sees to it that it is gone when t ends.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, out: &output{}, started: time.Now(), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.waiter.Go(func() {
		_ = cmd.Wait() // ProcessState has the exit code
		close(p.exited)
	})
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", cmd, p.out)
		}
	})
	return p
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	p.waiter.Wait()
}

// wait returns the exit code, and fails the test when the process does not end
// in time.
func (p *process) wait(timeout time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(timeout):
		p.t.Fatalf("%s did not end within %s", p.cmd, timeout)
	}
	return p.cmd.ProcessState.ExitCode()
}

// terminate asks the process to stop and returns its exit code.
func (p *process) terminate() int {
	p.t.Helper()
	if runtime.GOOS == "windows" {
		p.t.Skip("no SIGTERM on windows")
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	return p.wait(15 * time.Second)
}

// node is a serving process.
type node struct {
	*process
	url string
	dir string
}

// serve starts a node on dir and returns when it is ready.
func serve(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	n := launchNode(t, dir, freeAddr(t), args...)
	n.waitReady(10 * time.Second)
	return n
}

// launchNode starts a node on dir and addr without waiting for it.
func launchNode(t *testing.T, dir, addr string, args ...string) *node {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"serve", "--data", dir, "--listen", addr}, args...)...)
	cmd.Env = cleanEnv()
	return &node{process: launch(t, cmd), url: "http://" + addr, dir: dir}
}

// waitReady polls /readyz, and returns how long after its start the node was
// ready.
func (n *node) waitReady(timeout time.Duration) time.Duration {
	n.t.Helper()
	for time.Since(n.started) < timeout {
		if resp, err := http.Get(n.url + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(n.started)
			}
		}
		select {
		case <-n.exited:
			n.t.Fatalf("the node ended with %d before it was ready:\n%s", n.cmd.ProcessState.ExitCode(), n.out)
		case <-time.After(2 * time.Millisecond):
		}
	}
	n.t.Fatalf("the node was not ready within %s", timeout)
	return 0
}

// databasePath returns the node's database file.
func (n *node) databasePath() string {
	n.t.Helper()
	paths, err := filepath.Glob(filepath.Join(n.dir, "*.db"))
	if err != nil || len(paths) != 1 {
		n.t.Fatalf("one database in %s: got %v, %v", n.dir, paths, err)
	}
	return paths[0]
}

// freeAddr returns a loopback address that was free a moment ago.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// cli runs a client command against n and returns its exit code, stdout and
// stderr.
func (n *node) cli(args ...string) (code int, stdout, stderr string) {
	n.t.Helper()
	cmd := exec.Command(binary(n.t), args...)
	cmd.Env = cleanEnv("HOLDFAST_URL=" + n.url)
	return run(n.t, cmd)
}

// run runs cmd to its end.
func run(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// mustRun runs a command that must succeed and returns what it printed.
func mustRun(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	code, stdout, stderr := run(t, cmd)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", cmd, code, stdout, stderr)
	}
	return stdout
}

// eventually waits until ok holds.
func eventually(t *testing.T, timeout time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %s: %s", timeout, what)
}
