package tests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/node/client"
)

// crowdQueue is where the workers under test work.
const crowdQueue = "crowd"

// TestWorkers stops and kills worker processes of each language while jobs come,
// and checks by what the node has in the end that every job was done, and that a
// stop has cost none an attempt: a run that was interrupted does not count, and
// only workers that were killed have runs that crashed. `-args -jobs N -restarts
// N -workerkills N` says how much.
func TestWorkers(t *testing.T) {
	t.Run("Go", func(t *testing.T) {
		testWorkers(t, "go", func(env []string) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(env, "WORKER=go")
			return cmd
		})
	})
	t.Run("JavaScript", func(t *testing.T) {
		node := nodeJS(t)
		lookAtClient(t, jsClient)
		testWorkers(t, "js", func(env []string) *exec.Cmd {
			cmd := exec.Command(node, "testdata/worker.mjs")
			cmd.Env = env
			return cmd
		})
	})
	t.Run("Python", func(t *testing.T) {
		python := python3(t)
		lookAtClient(t, pythonClient)
		path, err := filepath.Abs(pythonClient)
		if err != nil {
			t.Fatal(err)
		}
		testWorkers(t, "python", func(env []string) *exec.Cmd {
			cmd := exec.Command(python, "testdata/worker.py")
			cmd.Env = append(env, "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1")
			return cmd
		})
	})
}

// crowd is a few worker processes on one queue.
type crowd struct {
	t       *testing.T
	n       *node
	kind    string
	command func(env []string) *exec.Cmd
	working []*crowdMember
	killed  map[string]bool // by worker name
	names   int
}

type crowdMember struct {
	*process
	name string
}

func testWorkers(t *testing.T, kind string, command func(env []string) *exec.Cmd) {
	c := &crowd{t: t, n: serve(t, t.TempDir()), kind: kind, command: command, killed: map[string]bool{}}
	for range 3 {
		c.working = append(c.working, c.start())
	}
	events := make([]func(), 0, *restartsFlag+*workerKillsFlag)
	for range *restartsFlag {
		events = append(events, c.restart)
	}
	for range *workerKillsFlag {
		events = append(events, c.kill)
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	enqueued := map[string]bool{}
	for i, event := range events {
		share := (i+1)*(*jobsFlag)/len(events) - len(enqueued)
		c.enqueue(enqueued, share)
		// At any moment: while jobs run, as the last one ends, or when all wait.
		time.Sleep(rand.N(200 * time.Millisecond))
		event()
	}
	eventually(t, 5*time.Minute, "every job is done", func() bool {
		var q client.Queue
		c.n.get("/v1/queues/"+crowdQueue, &q)
		return q.Counts.Done == int64(len(enqueued))
	})
	for _, w := range c.working {
		c.stop(w)
	}
	c.check(enqueued)
}

func (c *crowd) start() *crowdMember {
	c.t.Helper()
	c.names++
	name := fmt.Sprintf("%s-%d", c.kind, c.names)
	cmd := c.command(cleanEnv("WORKER_URL="+c.n.url, "WORKER_QUEUE="+crowdQueue, "WORKER_NAME="+name))
	m := &crowdMember{launch(c.t, cmd), name}
	eventually(c.t, time.Minute, name+" works", func() bool { return strings.Contains(m.out.String(), "working") })
	return m
}

// restart stops a worker, and starts another when it is gone.
func (c *crowd) restart() {
	i := rand.N(len(c.working))
	c.stop(c.working[i])
	c.working[i] = c.start()
}

func (c *crowd) stop(m *crowdMember) {
	c.t.Helper()
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if code := m.wait(time.Minute); code != 0 {
		c.t.Errorf("%s stopped with exit code %d:\n%s", m.name, code, m.out)
	}
}

func (c *crowd) kill() {
	i := rand.N(len(c.working))
	c.killed[c.working[i].name] = true
	c.working[i].kill()
	c.working[i] = c.start()
}

// enqueue adds jobs in several requests, one of them in five a slow one, which a
// stop interrupts.
func (c *crowd) enqueue(enqueued map[string]bool, jobs int) {
	c.t.Helper()
	for jobs > 0 {
		specs := make([]client.Spec, min(jobs, 1+rand.N(20)))
		for i := range specs {
			ms := rand.N(6)
			if rand.N(5) == 0 {
				ms = 300
			}
			specs[i] = client.Spec{Queue: crowdQueue, Payload: fmt.Appendf(nil, `{"ms":%d}`, ms)}
		}
		jobs -= len(specs)
		var made client.EnqueuedBatch
		c.n.post("/v1/jobs", specs, &made)
		for _, job := range made.Jobs {
			enqueued[job.ID] = true
		}
	}
}

// check compares what was enqueued with what the node has.
func (c *crowd) check(enqueued map[string]bool) {
	c.t.Helper()
	var interrupted, crashed int
	jobs := c.n.jobs(crowdQueue)
	for id := range enqueued {
		job, ok := jobs[id]
		switch {
		case !ok:
			c.t.Errorf("job %s is gone", id)
			continue
		case job.State != "done" || job.Failures != 0:
			c.t.Errorf("job %s is %s with %d failures: %v", id, job.State, job.Failures, c.n.job(id).Runs)
		}
		if job.Crashes+job.Interruptions == 0 {
			continue
		}
		for _, run := range c.n.job(id).Runs {
			switch {
			case run.Outcome == "interrupted":
				interrupted++
			case run.Outcome == "crashed" && c.killed[run.Worker]:
				crashed++
			default:
				c.t.Errorf("job %s: run %d of %s, which was not killed, is %s: %s", id, run.Run, run.Worker, run.Outcome, run.Error)
			}
		}
	}
	if *restartsFlag > 5 && interrupted == 0 {
		c.t.Errorf("none of %d restarts has interrupted a run: they show nothing", *restartsFlag)
	}
	if len(jobs) != len(enqueued) {
		c.t.Errorf("%d jobs were enqueued, the node has %d", len(enqueued), len(jobs))
	}
	line, err := json.Marshal(map[string]any{
		"worker": c.kind, "enqueued": len(enqueued), "restarts": *restartsFlag, "kills": *workerKillsFlag,
		"interrupted": interrupted, "crashed": crashed,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	fmt.Printf("WORKERS %s\n", line)
}

// workerMain is this test binary as the Go worker of TestWorkers.
func workerMain() int {
	c, err := client.New(os.Getenv("WORKER_URL"), client.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	name := os.Getenv("WORKER_NAME")
	worker, err := client.NewWorker(c, client.WorkerOptions{
		Queues: []string{os.Getenv("WORKER_QUEUE")}, Name: name,
		Concurrency: 4, Prefetch: 4, Lease: 10 * time.Second, Grace: 100 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Default: func(ctx context.Context, job client.Claimed) (any, error) {
			var work struct{ MS int }
			if err := json.Unmarshal(job.Payload, &work); err != nil {
				return nil, err
			}
			select {
			case <-time.After(time.Duration(work.MS) * time.Millisecond):
				return map[string]string{"by": name}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("working")
	if err := worker.Run(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
