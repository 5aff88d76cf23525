package tests_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// TestReplicationRefusals starts nodes on roots that they must not begin, and
// on buckets that do not do as they are asked.
func TestReplicationRefusals(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	p.ok("init")
	n := p.serve()
	job := n.enqueue(client.Spec{Queue: "q"})
	if code := n.terminate(); code != 0 {
		t.Fatalf("exit code %d, want 0", code)
	}
	tests := []struct {
		name  string
		from  string // in the right configuration
		to    string
		code  int
		parts []string
	}{
		{"a wrong prefix", "path: root", "path: rooot", 6, []string{"lock.json", "holdfast init"}},
		{"a wrong bucket", "bucket: bucket", "bucket: bukket", 5, []string{"the bucket does not exist"}},
		{"a wrong secret", s3server.SecretAccessKey, "wrong", 5, []string{"the key id or the secret is wrong"}},
		{"a wrong key id", "access-key-id: test", "access-key-id: other", 5, []string{"the key id or the secret is wrong"}},
		{"a wrong region", s3server.Region, "eu-central-1", 5, []string{"set region: " + s3server.Region}},
	}
	for _, tt := range tests {
		t.Run(tt.name+" is refused, and nothing is changed", func(t *testing.T) {
			p := p.in(t)
			p.configure(bucket(s, "root", tt.from, tt.to))
			p.wantExit(tt.code, tt.parts...)
			code, _, stderr := p.cli("restore", "-o", filepath.Join(t.TempDir(), "copy.db"))
			if code != tt.code {
				t.Errorf("restore: exit code %d, want %d: %s", code, tt.code, stderr)
			}
			wantParts(t, stderr, tt.parts...)
		})
	}
	t.Run("an endpoint that nobody answers at", func(t *testing.T) {
		p := p.in(t)
		p.configure(bucket(s, "root", s.URL, "http://"+freeAddr(t)))
		if code, _, stderr := p.cli("init"); code != 5 || !strings.Contains(stderr, "the endpoint cannot be reached") {
			t.Errorf("init: exit code %d, want 5: %s", code, stderr)
		}
		// Without a database to serve from, a node waits, alive, and says so.
		empty := newPlace(t, "a", bucket(s, "root", s.URL, "http://"+freeAddr(t)))
		n := empty.launch()
		eventually(t, 20*time.Second, "a reason", func() bool {
			return strings.Contains(strings.Join(n.ready().Reasons, " "), "waiting for the bucket: ")
		})
		if resp, err := http.Get(n.url + "/healthz"); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("healthz: %v", err)
		}
		if code := n.terminate(); code != 0 {
			t.Errorf("stopped while it waits: exit code %d, want 0", code)
		}
	})
	t.Run("init of a root that is in use is a conflict", func(t *testing.T) {
		p := p.in(t)
		p.configure(bucket(s, "root"))
		if code, _, stderr := p.cli("init"); code != 4 {
			t.Errorf("exit code %d, want 4: %s", code, stderr)
		}
	})
	t.Run("a database of another root is refused", func(t *testing.T) {
		p := p.in(t)
		p.configure(bucket(s, "other"))
		p.ok("init")
		p.wantExit(6, "holdfast adopt")
	})
	t.Run("where no primary belongs, none starts", func(t *testing.T) {
		p := p.in(t)
		p.configure(bucket(s, "root"))
		for _, env := range [][]string{{"FLY_REGION=fra", "PRIMARY_REGION=ams"}, {"RELEASE_COMMAND=1"}, {"FLY_PROCESS_GROUP=fly_app_console"}} {
			p.env = env
			name, _, _ := strings.Cut(env[0], "=")
			p.wantExit(6, name)
		}
	})
	n = p.serve()
	n.job(job.ID)
	if got := n.epoch(); got != 1 {
		t.Errorf("after all that it is in epoch %d, want 1", got)
	}
	p.verify()
}

func TestReplicationCleanStop(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root"))
	// The S3 client of Litestream does not start where this is set.
	p.env = []string{"AWS_CA_BUNDLE=" + caFile(t), "AWS_ACCESS_KEY_ID=not-used", "AWS_SECRET_ACCESS_KEY=not-used"}
	p.ok("init")
	n := p.serve()
	want := n.fill(50)
	seq := n.replication().Seq
	if code := n.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if e := p.ls(); !e.Closed {
		t.Errorf("after a stop: %+v, want it closed", e)
	}
	if v := p.verify(); v.Seq < seq {
		t.Errorf("the replica is at seq %d, want %d or more: the last commits were not uploaded", v.Seq, seq)
	}
	s.Forget()
	n = p.serve()
	n.wantJobs(want)
	if got := n.epoch(); got != 1 {
		t.Errorf("epoch %d, want 1", got)
	}
	for _, r := range s.Requests() {
		if r.Op == s3server.Put && strings.Contains(r.Key, "/e0") {
			t.Errorf("PUT %s: nothing was to be uploaded", r.Key)
		}
	}
	p.verify()
}

func TestReplicationOfAnOldVolume(t *testing.T) {
	replicas(t, func(t *testing.T, replica string, _ *s3server.Server) {
		p := newPlace(t, "a", replica)
		p.ok("init")
		n := p.serve()
		n.enqueue(client.Spec{Queue: "q"})
		n.terminate()
		old := filepath.Join(t.TempDir(), "old")
		if err := os.CopyFS(old, os.DirFS(p.dir)); err != nil {
			t.Fatal(err)
		}
		n = p.serve()
		want := n.fill(20)
		n.terminate()
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(p.dir, os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		n = p.serve()
		n.wantJobs(want)
		if aside, err := filepath.Glob(filepath.Join(p.dir, "aside", "*", "holdfast.db")); err != nil || len(aside) != 1 {
			t.Errorf("set aside: %v, %v", aside, err)
		}
		n.synced()
		p.verify()
	})
}

func TestReplicationTwoProcesses(t *testing.T) {
	t.Run("a second one on the folder is locked out", func(t *testing.T) {
		replica := folder(filepath.Join(t.TempDir(), "copy"))
		p := newPlace(t, "a", replica)
		p.ok("init")
		n := p.serve()
		newPlace(t, "a", replica).wantExit(4, "another process")
		n.enqueue(client.Spec{Queue: "q"})
		n.synced()
		p.verify() // while the node has the folder
	})
	t.Run("a second one of the name on the bucket finds the first alive", func(t *testing.T) {
		s := s3server.Start(t)
		p := newPlace(t, "a", bucket(s, "root"))
		p.ok("init")
		n := p.serve()
		newPlace(t, "a", bucket(s, "root")).wantExit(4, "is alive", n.url)
		newPlace(t, "b", bucket(s, "root")).wantExit(4, `node "a"`, "takeover --force")
	})
	t.Run("the one that lost its place stops and says who has it", func(t *testing.T) {
		s := s3server.Start(t)
		p := newPlace(t, "a", bucket(s, "root"))
		p.ok("init")
		a := p.serve()
		kept := a.enqueue(client.Spec{Queue: "q"})
		a.synced()
		code, _, stderr := p.cli("takeover")
		if code != 2 || !strings.Contains(stderr, `node "a"`) {
			t.Errorf("takeover without --force: exit code %d, want 2: %s", code, stderr)
		}
		wantParts(t, p.ok("takeover", "--force"), `taken from node "a"`, a.url)
		other := newPlace(t, "b", bucket(s, "root"))
		b := other.serve()
		b.job(kept.ID)
		// It finds out with the first commit after 10 s at the latest.
		after := time.Now()
		for end := after.Add(25 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			resp, err := http.Post(a.url+"/v1/jobs", "application/json", strings.NewReader(`{"queue":"q"}`))
			if err != nil {
				break
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if code := a.wait(10 * time.Second); code != 4 {
			t.Errorf("exit code %d, want 4", code)
		}
		wantParts(t, a.out.String(), "does not hold the root any more", `node \"b\"`)
		if got := len(b.jobs("q")); got != 1 {
			t.Errorf("the successor has %d jobs, want its 1", got)
		}
		if got := b.epoch(); got != 2 {
			t.Errorf("epoch %d, want 2", got)
		}
		other.verify()
	})
}

// metrics is what /metrics answers.
func (n *node) metrics() string {
	n.t.Helper()
	resp, err := http.Get(n.url + "/metrics")
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		n.t.Fatalf("GET /metrics: %s, %v", resp.Status, err)
	}
	return string(text)
}

// caFile writes a certificate as an authority has it.
func caFile(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
