package tests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/node/client"
)

// handler is a worker as a user writes one: the payload comes on stdin, the
// exit code says how it went.
const handler = `#!/bin/sh
payload=$(cat)
echo "$payload" >>worked
case $payload in
*broken*)
	[ -e repaired ] || { echo "convert: no decode delegate for this image" >&2; exit 1; }
	;;
esac
`

// TestWork runs a shell script for each job, and takes one job through its
// failures to the dead letters and, by hand, back.
func TestWork(t *testing.T) {
	needTool(t, "sh")
	n := serve(t, t.TempDir())
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "handler"), []byte(handler), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary(t), "work", "--queue", "thumbs", "--", "./handler")
	cmd.Dir = dir
	cmd.Env = cleanEnv("HOLDFAST_URL=" + n.url)
	worker := launch(t, cmd)
	reaches := func(id, state string) {
		t.Helper()
		eventually(t, 15*time.Second, "job "+id+" is "+state, func() bool { return n.job(id).State == state })
	}

	good := n.enqueue(client.Spec{Queue: "thumbs", Payload: []byte(`{"image":"good.png"}`)})
	reaches(good.ID, "done")
	worked, err := os.ReadFile(filepath.Join(dir, "worked"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(worked), "{\"image\":\"good.png\"}\n"; got != want {
		t.Errorf("the handler read %q, want %q", got, want)
	}

	broken := n.enqueue(client.Spec{
		Queue: "thumbs", Payload: []byte(`{"image":"broken.png"}`),
		MaxAttempts: 2, Backoff: &client.Backoff{Kind: "fixed", BaseMS: 100},
	})
	reaches(broken.ID, "dead")
	job := n.job(broken.ID)
	if job.Failures != 2 || len(job.Runs) != 2 {
		t.Errorf("got %d failures and %d runs, want 2 and 2", job.Failures, len(job.Runs))
	}
	code, stdout, stderr := n.cli("dead", "list")
	if code != 0 {
		t.Errorf("dead list: exit code %d: %s", code, stderr)
	}
	wantParts(t, stdout, broken.ID, "no decode delegate")

	if err := os.WriteFile(filepath.Join(dir, "repaired"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := n.cli("dead", "retry", broken.ID); code != 0 {
		t.Errorf("dead retry: exit code %d: %s", code, stderr)
	}
	reaches(broken.ID, "done")
	if job := n.job(broken.ID); job.Run != 3 || job.Failures != 0 {
		t.Errorf("got run %d with %d failures, want run 3 with none", job.Run, job.Failures)
	}
	if code := worker.terminate(); code != 0 {
		t.Errorf("the worker stopped with exit code %d, want 0", code)
	}
}
