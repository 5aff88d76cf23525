package tests_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// restoreTime is how long a node may take that first looks whether the node
// before it lives, and then restores.
const restoreTime = 30 * time.Second

// place is where a node lives: its directory, its replica and its name, which
// stay when the process goes.
type place struct {
	t      *testing.T
	dir    string
	config string // a litestream.yml
	addr   string
	name   string
	env    []string
	exe    string // empty: the binary under test
}

// binary is the program that runs at the place.
func (p *place) binary() string {
	p.t.Helper()
	if p.exe != "" {
		return p.exe
	}
	return binary(p.t)
}

// newPlace returns a place whose replica is described by lines of YAML.
func newPlace(t *testing.T, name, replica string) *place {
	t.Helper()
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "data"), addr: freeAddr(t), name: name}
	p.configure(replica)
	return p
}

// in is the place in a subtest, which may change it for itself.
func (p *place) in(t *testing.T) *place {
	q := *p
	q.t = t
	return &q
}

// configure gives the place another replica.
func (p *place) configure(replica string) {
	p.t.Helper()
	p.config = filepath.Join(p.t.TempDir(), "litestream.yml")
	text := fmt.Sprintf("dbs:\n  - path: %s\n    replica:\n", filepath.Join(p.dir, "holdfast.db"))
	for line := range strings.Lines(strings.TrimSpace(replica)) {
		text += "      " + line
	}
	if err := os.WriteFile(p.config, []byte(text+"\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// bucket describes a replica in an S3 server. A change replaces a word.
func bucket(s *s3server.Server, path string, changes ...string) string {
	return strings.NewReplacer(changes...).Replace(fmt.Sprintf(
		"type: s3\nbucket: %s\npath: %s\nendpoint: %s\nregion: %s\naccess-key-id: %s\nsecret-access-key: %s\n",
		s.Bucket, path, s.URL, s3server.Region, s3server.AccessKeyID, s3server.SecretAccessKey))
}

// folder describes a replica in a folder.
func folder(dir string) string { return "type: file\npath: " + dir + "\n" }

// replicas runs a test on a replica in a bucket and on one in a folder outside
// of the data directory. s is nil for the folder.
func replicas(t *testing.T, test func(t *testing.T, replica string, s *s3server.Server)) {
	t.Run("bucket", func(t *testing.T) {
		s := s3server.Start(t)
		test(t, bucket(s, "root"), s)
	})
	t.Run("folder", func(t *testing.T) { test(t, folder(filepath.Join(t.TempDir(), "copy")), nil) })
}

// launch starts the node without waiting for it.
func (p *place) launch() *node {
	p.t.Helper()
	cmd := exec.Command(p.binary(), "serve", "--data", p.dir, "--config", p.config, "--listen", p.addr, "--node", p.name)
	cmd.Env = cleanEnv(p.env...)
	return &node{process: launch(p.t, cmd), url: "http://" + p.addr, dir: p.dir}
}

// serve starts the node and returns when it is ready.
func (p *place) serve() *node {
	p.t.Helper()
	n := p.launch()
	n.waitReady(restoreTime)
	return n
}

// cli runs a command on the place.
func (p *place) cli(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	cmd := exec.Command(p.binary(), args...)
	cmd.Env = cleanEnv(append([]string{"HOLDFAST_DATA=" + p.dir, "HOLDFAST_CONFIG=" + p.config}, p.env...)...)
	return run(p.t, cmd)
}

// ok runs a command that must succeed and returns what it printed.
func (p *place) ok(args ...string) string {
	p.t.Helper()
	code, stdout, stderr := p.cli(args...)
	if code != 0 {
		p.t.Fatalf("holdfast %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// read runs a command with --json and decodes what it printed.
func (p *place) read(v any, args ...string) {
	p.t.Helper()
	if out := p.ok(append(args, "--json")...); json.Unmarshal([]byte(out), v) != nil {
		p.t.Fatalf("holdfast %s printed %s", strings.Join(args, " "), out)
	}
}

// verified is what replica verify says.
type verified struct {
	OK    bool   `json:"ok"`
	Epoch int64  `json:"epoch"`
	TXID  string `json:"txid"`
	Seq   int64  `json:"seq"`
	Bytes int64  `json:"bytes"`
}

// verify restores the replica with a check of every page.
func (p *place) verify() verified {
	p.t.Helper()
	var v verified
	p.read(&v, "replica", "verify")
	if !v.OK {
		p.t.Errorf("the replica is not whole: %+v", v)
	}
	return v
}

// epochs is what replica ls says.
type epochs struct {
	Closed bool `json:"closed"`
	Epochs []struct {
		Epoch   int64  `json:"epoch"`
		Ready   bool   `json:"ready"`
		MaxTXID string `json:"max_txid"`
	} `json:"epochs"`
}

func (p *place) ls() epochs {
	p.t.Helper()
	var e epochs
	p.read(&e, "replica", "ls")
	return e
}

// wantExit starts the node, which must end by itself with a code and say each
// of parts.
func (p *place) wantExit(code int, parts ...string) {
	p.t.Helper()
	n := p.launch()
	if got := n.wait(restoreTime); got != code {
		p.t.Errorf("exit code %d, want %d", got, code)
	}
	wantParts(p.t, n.out.String(), parts...)
}

// replication is GET /v1/replication.
func (n *node) replication() client.ReplicationStatus {
	n.t.Helper()
	var st client.ReplicationStatus
	n.get("/v1/replication", &st)
	return st
}

// synced waits until every commit is in the replica.
func (n *node) synced() client.ReplicationStatus {
	n.t.Helper()
	var st client.ReplicationStatus
	eventually(n.t, 30*time.Second, "every commit in the replica", func() bool {
		st = n.replication()
		return st.ReplicatedSeq != nil && *st.ReplicatedSeq == st.Seq && st.LagMS == 0 && st.LastError == nil && !st.Offline
	})
	return st
}

// epoch is the node's.
func (n *node) epoch() int64 {
	n.t.Helper()
	return n.replication().Epoch
}

// ready is GET /readyz, whatever it says.
func (n *node) ready() client.Ready {
	n.t.Helper()
	var ready client.Ready
	resp, err := http.Get(n.url + "/readyz")
	if err != nil {
		return ready
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&ready); err != nil {
		n.t.Fatal(err)
	}
	return ready
}

// fill makes jobs of every state in the queue q, and returns them all.
func (n *node) fill(jobs int) map[string]client.Job {
	n.t.Helper()
	specs := make([]client.Spec, jobs)
	for i := range specs {
		specs[i] = client.Spec{Queue: "q", Priority: i % 3, Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
		if i%10 == 9 {
			specs[i].DelayMS = 3_600_000
		}
	}
	for len(specs) > 0 {
		part := specs[:min(len(specs), 500)]
		n.post("/v1/jobs", part, nil)
		specs = specs[len(part):]
	}
	claims := client.ClaimRequest{Queues: []string{"q"}, Worker: "test:1", Max: jobs / 3, LeaseMS: 600_000}
	var claimed client.Claims
	n.post("/v1/claims", claims, &claimed)
	var acks client.AckRequest
	var fails client.FailRequest
	for i, job := range claimed.Jobs {
		switch i % 4 {
		case 0:
			acks.Acks = append(acks.Acks, client.Ack{Lease: job.Lease, Result: []byte(`{"ok":true}`)})
		case 1:
			fails.Fails = append(fails.Fails, client.Fail{Lease: job.Lease, Error: "for good", Fatal: true})
		case 2:
			fails.Fails = append(fails.Fails, client.Fail{Lease: job.Lease, Error: "for now"})
		}
	}
	n.post("/v1/acks", acks, nil)
	n.post("/v1/fails", fails, nil)
	return n.jobs("q")
}

// wantJobs checks that the queue q holds what it held before, to the last
// field.
func (n *node) wantJobs(want map[string]client.Job) {
	n.t.Helper()
	got := n.jobs("q")
	if len(got) != len(want) {
		n.t.Errorf("got %d jobs, want %d", len(got), len(want))
	}
	wrong := 0
	for id, w := range want {
		a, _ := json.Marshal(w)
		b, _ := json.Marshal(got[id])
		if string(a) != string(b) && wrong < 5 {
			wrong++
			n.t.Errorf("job %s:\ngot  %s\nwant %s", id, b, a)
		}
	}
}
