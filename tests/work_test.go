package tests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

// TestWorkStopsAtTheSecondSignal stops a worker whose run would use up the
// grace: once, which waits, and again, which does not.
func TestWorkStopsAtTheSecondSignal(t *testing.T) {
	n, worker, id := working(t, "sleep 60")
	if err := worker.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the first signal is answered", func() bool {
		return strings.Contains(worker.out.String(), "a second signal stops now")
	})
	if got := n.job(id).State; got != "running" {
		t.Errorf("after the first signal the job is %s, want running", got)
	}
	start := time.Now()
	if code := worker.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the stop took %s after the second signal", took)
	}
	if job := n.job(id); job.State != "queued" || job.Attempt != 1 || job.Interruptions != 1 {
		t.Errorf("got %s, attempt %d, %d interruptions, want the job given back", job.State, job.Attempt, job.Interruptions)
	}
}

// TestWorkTakesItsCommandAlong kills a worker, and looks whether the command
// that it ran goes on beside the job's next run.
func TestWorkTakesItsCommandAlong(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process with the one that started it")
	}
	_, worker, _ := working(t, `while :; do sleep 0.05; echo beat >>beats; done`)
	beats := filepath.Join(worker.cmd.Dir, "beats")
	size := func() int64 {
		info, err := os.Stat(beats)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	eventually(t, 5*time.Second, "the command runs", func() bool { return size() > 0 })
	worker.kill()
	time.Sleep(200 * time.Millisecond) // what it was writing
	before := size()
	time.Sleep(500 * time.Millisecond)
	if size() != before {
		t.Error("the command goes on without its worker")
	}
}

// working returns a worker that runs a shell script for a job, and the job's id.
func working(t *testing.T, script string) (n *node, worker *process, id string) {
	t.Helper()
	needTool(t, "sh")
	n = serve(t, t.TempDir())
	cmd := exec.Command(binary(t), "work", "slow", "--", "sh", "-c", ": >started; "+script)
	cmd.Dir = t.TempDir()
	cmd.Env = cleanEnv("HOLDFAST_URL=" + n.url)
	worker = launch(t, cmd)
	id = n.enqueue(client.Spec{Queue: "slow"}).ID
	eventually(t, 10*time.Second, "the job runs", func() bool { // that it is claimed is not enough
		_, err := os.Stat(filepath.Join(cmd.Dir, "started"))
		return err == nil
	})
	return n, worker, id
}
