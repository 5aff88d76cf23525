package tests_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"holdfast/node/client"
)

var workersFlag = flag.Int("workers", 4, "how many workers TestKilledWorkers kills and TestRestartedWorkers stops")

// TestKilledWorkers kills workers at random moments, with the command that they
// run. Each job comes back within its lease and a second, and costs one crash a
// kill at most.
func TestKilledWorkers(t *testing.T) {
	needTool(t, "sh")
	const lease = time.Second
	n := serve(t, t.TempDir())
	var longest int64 // ms from a kill to the end of a run of the killed worker
	for i := range *workersFlag {
		queue := fmt.Sprintf("kill%d", i)
		w := startWorker(t, n, queue, lease)
		n.enqueue(client.Spec{Queue: queue})
		n.enqueue(client.Spec{Queue: queue, DelayMS: 200})
		eventually(t, 30*time.Second, "a job runs", func() bool { return n.held(queue) > 0 })
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond) // also after an extend, or while it claims
		w.kill()
		killed := time.Now()
		held := n.held(queue)
		eventually(t, 30*time.Second, "the killed worker's jobs come back", func() bool { return n.held(queue) == 0 })
		for id := range n.jobs(queue) {
			job := n.job(id)
			if job.Crashes > 1 || job.Failures != 0 || job.Interruptions != 0 || job.State != "queued" {
				t.Errorf("job %s of %s: %+v", id, queue, job)
			}
			for _, run := range job.Runs {
				longest = max(longest, run.EndedAtMS-killed.UnixMilli()) // the node's own time, not ours
			}
		}
		t.Logf("worker %d held %d jobs", i, held)
	}
	t.Logf("the jobs of a killed worker were claimable after %d ms at most, with a lease of %s", longest, lease)
	const noise = 3 * time.Second // of a machine with much else to do
	if longest > (lease + time.Second + noise).Milliseconds() {
		t.Errorf("a job came back %d ms after its worker was killed, with a lease of %s", longest, lease)
	}
}

// TestRestartedWorkers stops workers by SIGTERM in the middle of runs that would
// take longer than their grace, as a deployment does. No job is lost, and none
// pays an attempt.
func TestRestartedWorkers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM on windows")
	}
	needTool(t, "sh")
	n := serve(t, t.TempDir())
	const jobs = 3
	for range jobs {
		n.enqueue(client.Spec{Queue: "deploy", MaxAttempts: 1})
	}
	w := startWorker(t, n, "deploy", 30*time.Second)
	for i := range *workersFlag {
		eventually(t, 30*time.Second, "a job runs", func() bool { return n.held("deploy") > 0 })
		next := startWorker(t, n, "deploy", 30*time.Second)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		if code := w.terminate(); code != 0 {
			t.Fatalf("worker %d ended with exit code %d", i, code)
		}
		w = next
	}
	if code := w.terminate(); code != 0 {
		t.Errorf("the last worker ended with exit code %d", code)
	}
	// The node may have given a job to a claim that had gone, and takes it back.
	eventually(t, 10*time.Second, "no job is held by a worker that is gone", func() bool { return n.held("deploy") == 0 })
	var interruptions int
	for id, job := range n.jobs("deploy") {
		if job.State != "queued" || job.Attempt != 1 || job.Failures != 0 || job.Crashes != 0 {
			t.Errorf("job %s paid for a restart: %+v", id, job)
		}
		interruptions += job.Interruptions
	}
	if got := len(n.jobs("deploy")); got != jobs || interruptions < *workersFlag {
		t.Errorf("%d jobs with %d interruptions after %d restarts, want %d and as many at least", got, interruptions, *workersFlag, jobs)
	}
	t.Logf("%d restarts interrupted %d runs", *workersFlag, interruptions)
}

// startWorker starts a worker whose runs last longer than any test.
func startWorker(t *testing.T, n *node, queue string, lease time.Duration) *process {
	t.Helper()
	cmd := exec.Command(binary(t), "work", queue, "--concurrency", "2", "--lease", lease.String(), "--grace", "0s", "--", "sh", "-c", "exec sleep 600")
	cmd.Env = cleanEnv("HOLDFAST_URL=" + n.url)
	return launch(t, cmd)
}

// held is how many jobs of a queue run.
func (n *node) held(queue string) int {
	n.t.Helper()
	held := 0
	for _, job := range n.jobs(queue) {
		if job.State == "running" {
			held++
		}
	}
	return held
}
