package tests_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

var idleFlag = flag.Duration("idle", 4*time.Second, "how long TestIdle watches a node that has nothing to do")

// TestIdle: a node that has nothing to do writes nothing, neither to its
// database nor to the replica, while workers wait for jobs, jobs for their time
// and somebody watches its health.
func TestIdle(t *testing.T) {
	replicas(t, func(t *testing.T, replica string, s *s3server.Server) {
		p := newPlace(t, "a", replica)
		p.appendConfig("levels:\n  - interval: 200ms\n  - interval: 400ms\n") // what is left to compact is soon done
		p.ok("init")
		n := p.serve()
		for _, delay := range []int64{0, 0, 0, 0, 3_600_000} {
			n.enqueue(client.Spec{Queue: "q", DelayMS: delay})
		}
		var claims client.Claims // one of the jobs goes on running
		n.post("/v1/claims", client.ClaimRequest{Queues: []string{"q"}, Max: 4, LeaseMS: 3_600_000}, &claims)
		n.post("/v1/acks", client.AckRequest{Acks: []client.Ack{{Lease: claims.Jobs[0].Lease}}}, nil)
		n.post("/v1/fails", client.FailRequest{Fails: []client.Fail{{Lease: claims.Jobs[1].Lease, Error: "x", Fatal: true}}}, nil)
		n.post("/v1/jobs/"+claims.Jobs[2].ID+"/cancel", nil, nil)
		n.synced()
		var before map[string]string
		eventually(t, 30*time.Second, "what the jobs left to do is done", func() bool {
			before = n.files(replica)
			time.Sleep(time.Second)
			return different(before, n.files(replica)) == ""
		})
		seq := n.replication().Seq
		var waiting sync.WaitGroup
		for start := time.Now(); time.Since(start) < *idleFlag; time.Sleep(250 * time.Millisecond) {
			waiting.Go(func() {
				var claims client.Claims
				if err := call(http.DefaultClient, http.MethodPost, n.url+"/v1/claims", client.ClaimRequest{Queues: []string{"q", "none"}, WaitMS: 1000}, &claims); err != nil || len(claims.Jobs) > 0 {
					t.Errorf("claimed %d jobs where there are none: %v", len(claims.Jobs), err)
				}
			})
			n.get("/v1/health", nil)
			n.get("/v1/jobs?queue=q", nil)
		}
		waiting.Wait()
		if changed := different(before, n.files(replica)); changed != "" {
			t.Errorf("in %s without work these files changed: %s", *idleFlag, changed)
		}
		if after := n.replication().Seq; after != seq {
			t.Errorf("in %s without work the node committed %d times", *idleFlag, after-seq)
		}
	})
}

// files are the sums of the database, its WAL, and of a replica in a folder.
// The lease in the replica is renewed all along.
func (n *node) files(replica string) map[string]string {
	n.t.Helper()
	dirs := []string{n.dir}
	if _, dir, ok := strings.Cut(replica, "path: /"); ok {
		dirs = append(dirs, "/"+strings.TrimSpace(dir))
	}
	sums := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "-shm") || strings.Contains(d.Name(), "lock") {
				return err
			}
			text, err := os.ReadFile(path)
			sums[path] = fmt.Sprintf("%d bytes, %x", len(text), sha256.Sum256(text))
			return err
		})
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return sums
}

// different names the files that are not the same in both.
func different(a, b map[string]string) string {
	var names []string
	for path, sum := range b {
		if a[path] != sum {
			names = append(names, fmt.Sprintf("%s (%.20s, now %.20s)", path, a[path], sum))
		}
	}
	for path := range a {
		if _, ok := b[path]; !ok {
			names = append(names, path+" (gone)")
		}
	}
	return strings.Join(names, ", ")
}

// appendConfig adds top-level keys to the place's litestream.yml.
func (p *place) appendConfig(text string) {
	p.t.Helper()
	f, err := os.OpenFile(p.config, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
