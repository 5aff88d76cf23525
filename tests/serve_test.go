package tests_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
)

func TestServeIsReadySoon(t *testing.T) {
	n := launchNode(t, filepath.Join(t.TempDir(), "new"), freeAddr(t))
	took := n.waitReady(10 * time.Second)
	t.Logf("ready %s after exec", took.Round(time.Millisecond))
	if took > bootTime {
		t.Errorf("ready after %s, want at most %s", took, bootTime)
	}
}

// TestServeWithoutConfiguration starts a node as README does, in a directory
// of its own, and runs the commands that it prints.
func TestServeWithoutConfiguration(t *testing.T) {
	addr := freeAddr(t)
	cmd := exec.Command(binary(t), "serve")
	cmd.Dir = t.TempDir()
	cmd.Env = cleanEnv("HOLDFAST_LISTEN=" + addr) // the default port may be taken
	n := &node{process: launch(t, cmd), url: "http://" + addr, dir: filepath.Join(cmd.Dir, "data")}
	n.waitReady(10 * time.Second)
	n.databasePath()
	eventually(t, 2*time.Second, "a printed curl", func() bool { return len(curlCommands(n.out.String())) > 0 })

	needTool(t, "curl")
	needTool(t, "sh")
	for _, line := range curlCommands(n.out.String()) {
		// --fail, so that an error answer is an exit code.
		line = strings.Replace(line, "curl ", "curl --fail-with-body --max-time 20 ", 1)
		if code, stdout, stderr := run(t, exec.Command("sh", "-c", line)); code != 0 {
			t.Errorf("%s\nexit code %d: %s%s", line, code, stdout, stderr)
		}
	}
	if len(n.jobsOfAllQueues()) == 0 {
		t.Error("the printed commands left no job")
	}
}

func (n *node) jobsOfAllQueues() []client.Job {
	n.t.Helper()
	var page client.Jobs
	n.get("/v1/jobs", &page)
	return page.Jobs
}

// curlCommands returns the curl commands in text, continuation lines joined.
func curlCommands(text string) []string {
	var commands []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		if strings.HasPrefix(line, "curl ") {
			commands = append(commands, line)
		}
	}
	return commands
}

func TestServeStopsGracefully(t *testing.T) {
	n := serve(t, t.TempDir())
	kept := n.enqueue(client.Spec{Queue: "kept"})
	claims := make([]client.Claims, 3)
	var g errgroup.Group
	for i := range claims {
		g.Go(func() error {
			return call(http.DefaultClient, http.MethodPost, n.url+"/v1/claims",
				client.ClaimRequest{Queues: []string{"empty"}, Worker: "test:1", WaitMS: 60_000}, &claims[i])
		})
	}
	time.Sleep(300 * time.Millisecond) // the claims arrive and wait
	start := time.Now()
	if code := n.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the stop took %s with nothing but waiting claims to answer", took)
	}
	if err := g.Wait(); err != nil {
		t.Errorf("a waiting claim was cut off: %v", err)
	}
	for _, c := range claims {
		if len(c.Jobs) != 0 {
			t.Errorf("a waiting claim got %v", c.Jobs)
		}
	}
	checkDatabase(t, n.databasePath())

	again := serve(t, n.dir)
	if got := again.job(kept.ID).State; got != "queued" {
		t.Errorf("after a restart the job is %s, want queued", got)
	}
}
