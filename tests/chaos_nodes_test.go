//go:build unix

package tests_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// chaosTTL is the lease of the nodes under test.
const chaosTTL = 3 * time.Second

// member is one of two nodes, with its own way to object storage, and what a
// supervisor does for it: it is started again whenever it ends.
type member struct {
	name  string
	place *place
	proxy *s3server.Proxy
	url   string
	log   *os.File      // of all its processes
	dir   string        // the data directory
	wall  time.Duration // how far its wall clock is from the machine's
	slept time.Duration // how far its monotonic clock is behind the machine's

	mu      sync.Mutex
	process *os.Process
	delay   time.Duration // before the next start
	wipe    bool          // the disk is lost before the next start
	done    bool          // it is not started again
	codes   []int         // with which it ended by itself
	asked   bool          // its end was asked for
}

// newMember returns a node on the root of s, not started yet.
func newMember(t *testing.T, s *s3server.Server, dir, name string) *member {
	t.Helper()
	m := &member{name: name, proxy: s.Another(t), dir: filepath.Join(dir, name)}
	m.place = &place{t: t, dir: m.dir, addr: freeAddr(t), name: name, config: filepath.Join(dir, name+".yml")}
	m.place.faulty()
	m.url = "http://" + m.place.addr
	text := fmt.Sprintf(`levels: [{interval: 3s}, {interval: 15s}]
l0-retention: 20s
snapshot: {interval: 40s, retention: 2m}
holdfast:
  failover: auto
  lease_ttl: %s
dbs:
  - path: %s
    replica: {type: s3, bucket: %s, path: root, endpoint: %q, region: %s, access-key-id: %s, secret-access-key: %s}
`, chaosTTL, filepath.Join(m.dir, "holdfast.db"), s.Bucket, m.proxy.URL, s3server.Region, s3server.AccessKeyID, s3server.SecretAccessKey)
	if err := os.WriteFile(m.place.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	m.log = log
	t.Cleanup(func() { _ = log.Close() })
	return m
}

// supervise starts the node again and again until retire.
func (m *member) supervise(t *testing.T, events *chaosEvents) error {
	for {
		cmd := exec.Command(m.place.binary(), "serve", "--data", m.dir, "--config", m.place.config, "--listen", m.place.addr, "--node", m.name)
		cmd.Env = cleanEnv(m.place.env...)
		cmd.Stdout, cmd.Stderr = m.log, m.log
		m.mu.Lock()
		if m.done {
			m.mu.Unlock()
			return nil
		}
		if err := cmd.Start(); err != nil {
			m.mu.Unlock()
			return err
		}
		m.process, m.asked = cmd.Process, false
		m.mu.Unlock()
		_ = cmd.Wait() // the state has the exit code
		m.mu.Lock()
		m.process = nil
		code, asked, delay, wipe := cmd.ProcessState.ExitCode(), m.asked, max(m.delay, 200*time.Millisecond), m.wipe
		if !asked {
			m.codes = append(m.codes, code)
		}
		m.delay, m.wipe = 0, false
		m.mu.Unlock()
		events.add("%s ended with %d; again in %s, disk lost: %v", m.name, code, delay, wipe)
		if wipe {
			if err := os.RemoveAll(m.dir); err != nil {
				return err
			}
		}
		time.Sleep(delay)
	}
}

// signal sends a signal to the node's process, if there is one. An end that it
// causes is followed by a start after delay, on an empty disk with wipe.
func (m *member) signal(sig syscall.Signal, delay time.Duration, wipe bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process == nil {
		return
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		m.delay, m.wipe, m.asked = delay, wipe, true
	}
	_ = m.process.Signal(sig) // it may just have ended
}

// retire ends the node for good and waits for nothing.
func (m *member) retire(sig syscall.Signal) {
	m.mu.Lock()
	m.done = true
	m.mu.Unlock()
	m.signal(syscall.SIGCONT, 0, false)
	m.signal(sig, 0, false)
}

// chaosEvents is what was done to the nodes, and what became of it.
type chaosEvents struct {
	mu    sync.Mutex
	lines []string
}

func (e *chaosEvents) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, time.Now().Format("05.000")+" "+fmt.Sprintf(format, args...))
}

// lockWatch follows lock.json in the server's folder.
type lockWatch struct {
	path   string
	events *chaosEvents
	mu     sync.Mutex
	lock   chaosLock
	epochs []int64 // in which one became ready
}

type chaosLock struct {
	Epoch  int64
	Ready  int64
	Beat   int64
	Node   string
	Closed bool
}

func (w *lockWatch) run(ctx context.Context) {
	for sleepFor(ctx, 20*time.Millisecond) {
		var now chaosLock
		text, err := os.ReadFile(w.path)
		if err != nil || json.Unmarshal(text, &now) != nil {
			continue // it is being replaced
		}
		w.mu.Lock()
		before := w.lock
		w.lock = now
		if now.Ready != before.Ready {
			w.epochs = append(w.epochs, now.Ready)
		}
		w.mu.Unlock()
		if now != before {
			w.events.add("lock.json: %+v", now)
		}
	}
}

// failovers is how many epochs became ready after the first.
func (w *lockWatch) failovers() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(max(len(w.epochs)-1, 0))
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// chaosProbe asks a node with little patience: one that is stopped does not
// answer.
var chaosProbe = &http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}

// ready reports whether the node serves as the primary.
func (m *member) ready() bool {
	resp, err := chaosProbe.Get(m.url + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// standsBy reports whether the node waits to take over.
func (m *member) standsBy() bool {
	var self client.Node
	return call(chaosProbe, http.MethodGet, m.url+"/v1/node", nil, &self) == nil && self.Role == client.RoleStandby
}

// chaos is two nodes, what loads them and what is done to them.
type chaos struct {
	t       *testing.T
	members [2]*member
	events  *chaosEvents
	lock    *lockWatch
	load    *chaosLoad
	dir     string
	s3      *s3server.Server
	slowest time.Duration // takeover with object storage well

	supervisors errgroup.Group
}

// primary returns the member that serves, or nil when none does in time.
func (c *chaos) primary(within time.Duration) *member {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, m := range c.members {
			if m.ready() {
				return m
			}
		}
	}
	return nil
}

func (c *chaos) other(m *member) *member {
	if m == c.members[0] {
		return c.members[1]
	}
	return c.members[0]
}

var errNoPrimary = errors.New("no node became the primary")
