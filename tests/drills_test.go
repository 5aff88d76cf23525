package tests_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

// drill runs a script of deploy/drills and returns its exit code and what it
// printed.
func drill(t *testing.T, script string, env []string, args ...string) (int, string) {
	t.Helper()
	needTool(t, "sh")
	port := func() string {
		_, port, _ := strings.Cut(freeAddr(t), ":")
		return port
	}
	path, err := filepath.Abs(filepath.Join(root, "deploy", "drills", script))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops its nodes
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = cleanEnv(append(env, "PATH="+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"),
		"DRILL_PORT="+port(), "DRILL_PORT2="+port(), "TMPDIR="+t.TempDir())...)
	code, stdout, stderr := run(t, cmd)
	return code, stdout + stderr
}

// bucketEnv names the bucket of a server, as a person's environment does.
func bucketEnv(s *s3server.Server) []string {
	return []string{
		"BUCKET_NAME=" + s.Bucket, "AWS_ENDPOINT_URL_S3=" + s.URL, "AWS_REGION=" + s3server.Region,
		"AWS_ACCESS_KEY_ID=" + s3server.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + s3server.SecretAccessKey,
	}
}

func TestDrills(t *testing.T) {
	for script, ok := range map[string]string{
		"lost-disk.sh": "lost disk drill: ok; all 20 jobs are back",
		"failover.sh":  "failover drill: ok; the standby took over",
	} {
		t.Run(script, func(t *testing.T) {
			if code, out := drill(t, script, bucketEnv(s3server.Start(t))); code != 0 || !strings.Contains(out, ok) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
	t.Run("restore.sh beside the node that serves", func(t *testing.T) {
		s := s3server.Start(t)
		p := newPlace(t, "n", bucket(s, "root"))
		p.ok("init")
		// A root that was taken over is in a later epoch than a new one.
		if code := p.serve().terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
		n := p.serve()
		if n.epoch() < 2 {
			t.Fatalf("the root is in epoch %d", n.epoch())
		}
		for range 3 {
			if code, _, stderr := n.cli("enqueue", "mail", "1"); code != 0 {
				t.Fatal(stderr)
			}
		}
		eventually(t, 30*time.Second, "the jobs are in the bucket", func() bool { return p.verify().Seq >= 3 })
		before, err := filepath.Glob(filepath.Join(s.Dir, "root", "*"))
		if err != nil || len(before) == 0 {
			t.Fatalf("the bucket holds %v, %v", before, err)
		}
		code, out := drill(t, "restore.sh", nil, "--config", p.config, "--data", p.dir)
		if code != 0 || !strings.Contains(out, "restore drill: ok") || !strings.Contains(out, "mail") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		if after, _ := filepath.Glob(filepath.Join(s.Dir, "root", "*")); len(after) != len(before) {
			t.Errorf("the bucket held %v and now holds %v", before, after)
		}
		if n.status("/readyz") != 200 {
			t.Error("the node that serves was disturbed")
		}
	})
	t.Run("restore.sh fails where there is nothing to restore", func(t *testing.T) {
		code, out := drill(t, "restore.sh", nil, "--data", filepath.Join(t.TempDir(), "none"))
		if code == 0 || strings.Contains(out, "drill: ok") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}
