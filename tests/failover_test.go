//go:build unix

package tests_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// failoverTTL is the lease of nodes whose takeover a test waits for.
const failoverTTL = 3 * time.Second

// newAutoPlace returns a place with automatic failover whose node runs the build
// with the clocks and fault points of the tests.
func newAutoPlace(t *testing.T, name string, s *s3server.Server) *place {
	t.Helper()
	p := newPlace(t, name, bucket(s, "root"))
	text, err := os.ReadFile(p.config)
	if err != nil {
		t.Fatal(err)
	}
	text = fmt.Appendf(text, "holdfast:\n  failover: auto\n  lease_ttl: %s\n", failoverTTL)
	if err := os.WriteFile(p.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p.faulty()
	return p
}

// faulty makes the place run the build for faults, and gives it a folder for
// them.
func (p *place) faulty() {
	p.t.Helper()
	p.exe = faulty.path(p.t)
	p.env = append(p.env, "HOLDFAST_FAULTS="+p.t.TempDir())
}

func (p *place) faultsDir() string { return p.env[len(p.env)-1][len("HOLDFAST_FAULTS="):] }

// arm makes the node of the place kill or stop itself, or fail, once at a point.
func (p *place) arm(point, how string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.faultsDir(), point), []byte(how), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// armed reports whether the point has not been reached yet.
func (p *place) armed(point string) bool {
	_, err := os.Stat(filepath.Join(p.faultsDir(), point))
	return err == nil
}

// setClocks moves the clocks of the place's node away from the machine's.
func (p *place) setClocks(wall, mono time.Duration) {
	p.t.Helper()
	path := filepath.Join(p.faultsDir(), "clock")
	text := fmt.Sprintf(`{"wall_ms":%d,"mono_ms":%d}`, wall.Milliseconds(), mono.Milliseconds())
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		p.t.Fatal(err)
	}
}

// self is what the node says of itself; false: nothing.
func (n *node) self() (self client.Node, ok bool) {
	return self, call(chaosProbe, http.MethodGet, n.url+"/v1/node", nil, &self) == nil
}

// serves reports whether the node is ready.
func (n *node) serves() bool {
	resp, err := chaosProbe.Get(n.url + "/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (n *node) waitStandby() {
	n.t.Helper()
	eventually(n.t, restoreTime, "a standby", func() bool {
		self, ok := n.self()
		return ok && self.Role == client.RoleStandby
	})
}

// pair starts a primary and its standby on a new root.
func pair(t *testing.T) (s *s3server.Server, places [2]*place, nodes [2]*node) {
	t.Helper()
	s = s3server.Start(t)
	for i, name := range []string{"a", "b"} {
		places[i] = newAutoPlace(t, name, s)
	}
	places[0].ok("init")
	nodes[0] = places[0].serve()
	nodes[1] = places[1].launch()
	nodes[1].waitStandby()
	return s, places, nodes
}

// lockOf reads lock.json from the server's folder.
func lockOf(t *testing.T, s *s3server.Server) (lock chaosLock) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "root", "lock.json"))
	if err != nil || json.Unmarshal(text, &lock) != nil {
		t.Fatalf("lock.json: %q, %v", text, err)
	}
	return lock
}

// TestFaultsAreForTestsAlone: the product knows nothing of what makes a node
// fail in tests.
func TestFaultsAreForTestsAlone(t *testing.T) {
	for exe, want := range map[string]bool{binary(t): false, faulty.path(t): true} {
		text, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(text, []byte("HOLDFAST_FAULTS")); got != want {
			t.Errorf("%s knows of HOLDFAST_FAULTS: %v, want %v", exe, got, want)
		}
	}
}
