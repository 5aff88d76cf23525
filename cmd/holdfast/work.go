package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func workCommand() *cli.Command {
	return &cli.Command{
		Name:      "work",
		Usage:     "run a command for each job",
		ArgsUsage: "-- COMMAND [ARGUMENTS]",
		UsageText: "holdfast work --queue QUEUE [FLAGS] -- COMMAND [ARGUMENTS]",
		Description: "The command gets the payload on standard input and finds HOLDFAST_JOB_ID,\n" +
			"HOLDFAST_QUEUE, HOLDFAST_TYPE, HOLDFAST_ATTEMPT and HOLDFAST_RUN in its environment.\n" +
			"What it prints is kept as the job's result; the end of what it prints to standard\n" +
			"error is kept as the reason of a failure. Its exit code decides:\n\n" +
			"   0      done\n" +
			"   65     failed for good: the job is dead (EX_DATAERR)\n" +
			"   75     failed for now: tried again by the job's back-off (EX_TEMPFAIL)\n" +
			"   other  failed: tried again by the job's back-off\n\n" +
			"A run that is cancelled, takes too long or loses its lease gets SIGTERM, and SIGKILL 5 s\n" +
			"later, its children too. On SIGTERM no more jobs are taken; runs may finish within\n" +
			"--grace, the others are stopped and their jobs given back, which costs no attempt.\n" +
			"With --type, jobs of other types fail: give them a queue of their own.\n\n" +
			"Examples:\n" +
			"  holdfast work --queue thumbs --concurrency 4 -- ./make-thumbnail\n" +
			"  holdfast work --queue mail -- sh -c 'jq -r .to | xargs ./send'",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "queue", Aliases: []string{"q"}, Usage: "queue to work on; may be repeated, in order of preference"},
			&cli.StringSliceFlag{Name: "type", Aliases: []string{"t"}, Usage: "handle this type only; may be repeated"},
			&cli.IntFlag{Name: "concurrency", Aliases: []string{"c"}, Value: 1, Usage: "commands at a time"},
			&cli.DurationFlag{Name: "lease", Value: 30 * time.Second, Usage: "how long a job outlives a worker that is gone"},
			&cli.DurationFlag{Name: "grace", Value: 30 * time.Second, Usage: "how long runs may go on after SIGTERM"},
			urlFlag(),
		},
		Action: work,
	}
}

func work(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return usagef("work: no command is given; usage: %s", c.Command.UsageText)
	}
	if len(c.StringSlice("queue")) == 0 {
		return usagef("work: no queue is given; usage: %s", c.Command.UsageText)
	}
	path, err := exec.LookPath(c.Args().First())
	if err != nil {
		return usagef("work: %v; nothing was claimed", err)
	}
	api, err := dial(c)
	if err != nil {
		return err
	}
	defer api.Close()
	stderr := &sharedWriter{w: c.App.ErrWriter} // of the log and of every run
	log := newLogger(stderr, isTerminal(c.App.ErrWriter))
	p := &program{path: path, args: c.Args().Tail(), stderr: stderr}
	opts := client.WorkerOptions{
		Queues: c.StringSlice("queue"), Concurrency: c.Int("concurrency"),
		Lease: c.Duration("lease"), Grace: c.Duration("grace"), Logger: log,
	}
	if opts.Grace == 0 {
		opts.Grace = -1 // 0 means the default there
	}
	if types := c.StringSlice("type"); len(types) > 0 {
		opts.Handlers = map[string]client.Handler{}
		for _, t := range types {
			opts.Handlers[t] = p.handle
		}
	} else {
		opts.Default = p.handle
	}
	worker, err := client.NewWorker(api, opts)
	if err != nil {
		return usagef("work: %v", err)
	}
	log.Info("working", "queue", strings.Join(opts.Queues, ","), "concurrency", opts.Concurrency, "url", api.URL(), "command", path)
	return worker.Run(c.Context)
}

const (
	exitFatal = 65 // EX_DATAERR of sysexits.h
	maxResult = 64 << 10
	maxError  = 8 << 10
	killAfter = 5 * time.Second
)

// program is a command that handles jobs.
type program struct {
	path   string
	args   []string
	stderr *sharedWriter // of this process
}

// handle runs the program for a job.
func (p *program) handle(ctx context.Context, job client.Claimed) (any, error) {
	stdout := &head{limit: maxResult}
	stderr := &tail{limit: maxError, next: p.stderr}
	cmd := p.command(ctx, job)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := runGroup(ctx, cmd)
	if err == nil {
		return resultOf(stdout), nil
	}
	err = failure(err, stderr.String())
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitFatal {
		return nil, client.Fatal(err)
	}
	return nil, err
}

// failure is how the program ended and the end of what it said, within what a
// node keeps.
func failure(err error, said string) error {
	said = strings.TrimSpace(said)
	if said == "" {
		return err
	}
	room := maxError - len(err.Error()) - len(": ")
	if over := len(said) - room; over > 0 {
		said = strings.ToValidUTF8(said[over:], "")
	}
	return fmt.Errorf("%w: %s", err, said)
}

// resultOf makes a result of what the program printed: JSON as it is, other
// text as a string, cut to what a node keeps.
func resultOf(printed *head) any {
	text := strings.TrimSpace(printed.String())
	switch {
	case text == "":
		return nil
	case !printed.cut && json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	// Escapes make the JSON longer than the text, so the cut depends on it.
	for {
		encoded, err := json.Marshal(text)
		over := len(encoded) - maxResult
		if err != nil || over <= 0 {
			return text
		}
		keep := len(text) - max(over/6, 1)
		text = strings.ToValidUTF8(text[:max(keep, 0)], "")
	}
}

// sharedWriter lets several goroutines write to one place, a write at a time.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
