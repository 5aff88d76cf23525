package tests_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
)

// notifySocket is the side of sd_notify(3) that systemd has.
type notifySocket struct {
	path string
	conn *net.UnixConn
	got  chan string // messages, in order
}

func newNotifySocket(t *testing.T) *notifySocket {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &notifySocket{path: filepath.Join(dir, "notify"), got: make(chan string, 1000)}
	if s.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.conn.Read(buf)
			if err != nil {
				return nil // it was closed
			}
			s.got <- string(buf[:n])
		}
	})
	t.Cleanup(func() {
		s.conn.Close()
		_ = g.Wait() // it returns none
	})
	return s
}

// await returns the messages up to the one that has the line.
func (s *notifySocket) await(t *testing.T, line string) []string {
	t.Helper()
	var before []string
	timeout := time.After(60 * time.Second)
	for {
		select {
		case m := <-s.got:
			before = append(before, m)
			for l := range strings.SplitSeq(m, "\n") {
				if l == line {
					return before
				}
			}
		case <-timeout:
			t.Fatalf("no %s among %q", line, before)
		}
	}
}

func TestNotify(t *testing.T) {
	t.Run("ready when requests are served, fed while it lives, stopping at the end", func(t *testing.T) {
		s := newNotifySocket(t)
		addr := freeAddr(t)
		cmd := exec.Command(binary(t), "serve", "--data", t.TempDir(), "--listen", addr)
		cmd.Env = cleanEnv("NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=600000")
		n := &node{process: launch(t, cmd), url: "http://" + addr}
		before := s.await(t, "READY=1")
		if code, body := n.fetch("/readyz"); code != http.StatusOK {
			t.Errorf("READY=1 came, and /readyz is %d: %s", code, body)
		}
		for _, m := range before[:len(before)-1] {
			if m != "WATCHDOG=1" && !(strings.Contains(m, "EXTEND_TIMEOUT_USEC=") && strings.Contains(m, "STATUS=")) {
				t.Errorf("before READY=1 came %q", m)
			}
		}
		for range 3 {
			s.await(t, "WATCHDOG=1")
		}
		if code := n.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		s.await(t, "STOPPING=1")
	})
	t.Run("a boot that waits for its bucket asks for more time, and is not ready", func(t *testing.T) {
		s := newNotifySocket(t)
		p := newPlace(t, "n", "type: s3\nbucket: b\npath: p\nregion: us-east-1\naccess-key-id: a\nsecret-access-key: b\nendpoint: http://"+freeAddr(t))
		p.env = []string{"NOTIFY_SOCKET=" + s.path}
		n := p.launch()
		for waiting := false; !waiting; {
			select {
			case m := <-s.got:
				if strings.Contains(m, "READY=1") {
					t.Fatalf("got %q", m)
				}
				waiting = strings.Contains(m, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for the bucket: ")
			case <-time.After(60 * time.Second):
				t.Fatal("it does not say that it waits")
			}
		}
		if code := n.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// fetch gets a path of the node.
func (n *node) fetch(path string) (code int, body string) {
	n.t.Helper()
	resp, err := http.Get(n.url + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

// heldSocket is a socket that outlives the nodes that serve on it.
type heldSocket struct {
	file *os.File
	addr string
}

func holdSocket(t *testing.T) *heldSocket {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		t.Fatalf("%T", l)
	}
	f, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &heldSocket{file: f, addr: l.Addr().String()}
}

// serve starts a node on the socket, as systemd does.
func (s *heldSocket) serve(t *testing.T, dir string) *node {
	t.Helper()
	// The shell becomes the node, whose process id has to be in its environment.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary(t), "serve", "--data", dir)
	cmd.Env = cleanEnv("LISTEN_FDS=1", "LISTEN_FDNAMES=holdfast.socket")
	cmd.ExtraFiles = []*os.File{s.file}
	return &node{process: launch(t, cmd), url: "http://" + s.addr, dir: dir}
}

func TestRestartBehindAHeldSocket(t *testing.T) {
	const (
		clients  = 8
		restarts = 3
	)
	s, dir := holdSocket(t), t.TempDir()
	n := s.serve(t, dir)
	n.waitReady(30 * time.Second)
	var (
		sent, failed atomic.Int64
		acknowledged sync.Map // ids
		stop         = make(chan struct{})
		load         errgroup.Group
	)
	for c := range clients {
		load.Go(func() error {
			api := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
			defer api.CloseIdleConnections()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return nil
				default:
				}
				key := fmt.Sprintf("%d-%d", c, i)
				sent.Add(1)
				resp, err := api.Post("http://"+s.addr+"/v1/jobs", "application/json", strings.NewReader(`{"queue":"q","idempotency_key":"`+key+`"}`))
				if err != nil {
					failed.Add(1)
					continue
				}
				var job client.Enqueued
				err = json.NewDecoder(resp.Body).Decode(&job)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusCreated {
					failed.Add(1)
					continue
				}
				acknowledged.Store(job.ID, true)
			}
		})
	}
	before := int64(0)
	for range restarts {
		eventually(t, 60*time.Second, "requests are answered again", func() bool { return sent.Load()-failed.Load() > before+20*clients })
		if code := n.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		before = sent.Load()
		n = s.serve(t, dir)
	}
	eventually(t, 60*time.Second, "requests are answered again", func() bool { return sent.Load()-failed.Load() > before+20*clients })
	close(stop)
	if err := load.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d restarts: of %d requests %d failed", restarts, sent.Load(), failed.Load())
	if got, most := failed.Load(), int64(clients*restarts); got > most {
		t.Errorf("%d requests failed, and %d were under way", got, most)
	}
	exported := map[string]bool{}
	code, out, _ := n.cli("export")
	if code != 0 {
		t.Fatalf("export: exit code %d", code)
	}
	for line := range strings.Lines(out) {
		var job client.Job
		if err := json.Unmarshal([]byte(line), &job); err != nil {
			t.Fatal(err)
		}
		exported[job.ID] = true
	}
	acknowledged.Range(func(key, _ any) bool {
		if id, _ := key.(string); !exported[id] {
			t.Errorf("job %s was acknowledged and is gone", id)
		}
		return true
	})
}
