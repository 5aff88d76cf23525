package tests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/tests/s3server"
)

// TestMoveToABucket is how deploy/docs/vps.md gives a node a bucket that has
// worked without one.
func TestMoveToABucket(t *testing.T) {
	s := s3server.Start(t)
	p := newPlace(t, "n", bucket(s, "root"))
	before := serve(t, p.dir)
	if code, _, stderr := before.cli("enqueue", "mail", `"kept"`); code != 0 {
		t.Fatal(stderr)
	}
	if code := before.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	p.ok("init")
	refused := p.launch()
	if code := refused.wait(restoreTime); code != 6 || !strings.Contains(refused.out.String(), "adopt") {
		t.Errorf("a node with jobs on a new bucket: %d, %s", code, refused.out)
	}
	file := filepath.Join(p.dir, "holdfast.db")
	if info, err := os.Stat(file + "-wal"); err != nil || info.Size() == 0 {
		t.Errorf("the last commits are not in the WAL, and so this shows less than it should: %v", err)
	}
	p.ok("adopt", file)
	n := p.serve()
	if code, out, _ := n.cli("get", "1"); code != 0 || !strings.Contains(out, "kept") {
		t.Errorf("the job: %s", out)
	}
	if v := p.verify(); v.Seq < 1 {
		t.Errorf("the bucket: %+v", v)
	}
	t.Run("and to another bucket after it was taken over", func(t *testing.T) {
		if code := n.terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
		last := p.in(t).serve()
		epoch := last.epoch()
		if code := last.terminate(); code != 0 || epoch < 2 {
			t.Fatalf("exit code %d, epoch %d", code, epoch)
		}
		file := filepath.Join(t.TempDir(), "jobs.db")
		p.in(t).ok("restore", "-o", file)
		q := newPlace(t, "n", bucket(s, "another"))
		q.ok("init")
		q.ok("adopt", file)
		n := q.serve()
		if code, out, _ := n.cli("get", "1"); code != 0 || !strings.Contains(out, "kept") || n.epoch() <= epoch {
			t.Errorf("the job, in epoch %d after %d: %s", n.epoch(), epoch, out)
		}
	})
}
