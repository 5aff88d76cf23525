package s3server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// The key that the server takes, and its region.
const (
	AccessKeyID     = "test"
	SecretAccessKey = "testsecret"
	Region          = "us-east-1"
)

// Server is a running S3 server behind a proxy. It ends with its test.
type Server struct {
	*Proxy        // in front of it
	Direct string // URL of the server itself: no faults, no record
	Bucket string
	Dir    string // of the bucket's objects

	process *exec.Cmd
	waiter  errgroup.Group
	exited  chan struct{}
	output  *output
}

// Start runs a server with an empty bucket.
func Start(tb testing.TB) *Server {
	tb.Helper()
	exe := binary(tb)
	root := tb.TempDir()
	s := &Server{Bucket: "bucket", Dir: filepath.Join(root, "bucket")}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	var err error
	for range 5 { // a free port may be taken before the server gets to it
		if err = s.run(exe, root); err == nil {
			break
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.stop)
	s.Proxy = s.Another(tb)
	return s
}

// Another returns a second proxy in front of the same server, with faults and a
// record of its own: one node of several is cut off by giving it one.
func (s *Server) Another(tb testing.TB) *Proxy {
	p := newProxy(s.Bucket, strings.TrimPrefix(s.Direct, "http://"))
	front := httptest.NewServer(p)
	p.URL = front.URL
	tb.Cleanup(func() {
		p.release()
		front.CloseClientConnections()
		front.Close()
	})
	return p
}

// run starts the process and waits until it answers.
func (s *Server) run(exe, root string) error {
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	s.output = &output{}
	cmd := exec.Command(exe, "--access", AccessKeyID, "--secret", SecretAccessKey,
		"--region", Region, "--port", addr, "--quiet", "posix", root)
	cmd.Stdout, cmd.Stderr = s.output, s.output
	cmd.Env = environment()
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", exe, err)
	}
	s.process, s.exited, s.Direct = cmd, make(chan struct{}), "http://"+addr
	exited := s.exited
	s.waiter.Go(func() error {
		defer close(exited)
		return cmd.Wait()
	})
	if err := s.ready(); err != nil {
		s.stop()
		return fmt.Errorf("%w\n%s", err, s.output)
	}
	return nil
}

// ready waits for an answer; that it is a refusal does not matter.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Direct+"/", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			return resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the S3 server does not answer: %w", ctx.Err())
		case <-s.exited:
			return fmt.Errorf("the S3 server ended by itself")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop kills the process and waits for its end.
func (s *Server) stop() {
	_ = s.process.Process.Kill() // it may have ended
	_ = s.waiter.Wait()          // that it was killed
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// environment is ours without what would configure the server or its SDK.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "VGW_") && !strings.HasPrefix(v, "ROOT_") && !strings.HasPrefix(v, "AWS_") {
			env = append(env, v)
		}
	}
	return env
}

// output keeps what a process wrote.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps p.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns all that was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
