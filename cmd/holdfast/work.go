package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func workCommand() *cli.Command {
	return &cli.Command{
		Name:      "work",
		Usage:     "run a command for each job",
		ArgsUsage: "QUEUE... -- COMMAND [ARGUMENTS]",
		UsageText: "holdfast work QUEUE... [FLAGS] -- COMMAND [ARGUMENTS]",
		Description: "The command gets the payload on standard input and finds HOLDFAST_JOB_ID,\n" +
			"HOLDFAST_QUEUE, HOLDFAST_TYPE, HOLDFAST_ATTEMPT, HOLDFAST_MAX_ATTEMPTS, HOLDFAST_RUN,\n" +
			"HOLDFAST_LEASE and HOLDFAST_URL in its environment, and TRACEPARENT where the job has one:\n" +
			"holdfast extend \"$HOLDFAST_LEASE\" --progress 50 reports how it gets on.\n" +
			"What it prints is kept as the job's result; the end of what it prints to standard\n" +
			"error is kept as the reason of a failure. Its exit code decides:\n\n" +
			"   0      done\n" +
			"   65     failed for good: the job is dead (EX_DATAERR)\n" +
			"   75     failed for now: tried again by the job's back-off (EX_TEMPFAIL)\n" +
			"   other  failed: tried again by the job's back-off\n\n" +
			"A run that is cancelled, takes too long or loses its lease gets SIGTERM, and SIGKILL 5 s\n" +
			"later, its children too. On SIGINT (Ctrl-C) or SIGTERM no more jobs are taken; runs may\n" +
			"finish within --grace, the others are stopped and their jobs given back, which costs no\n" +
			"attempt. A second signal ends the grace at once.\n\n" +
			"Two runs of a job can overlap: when the worker is killed, or cut off from the node for\n" +
			"longer than --lease, the job is given to another while the command may still run. On\n" +
			"Linux the command is killed with its worker; what it started itself is not.\n\n" +
			"With --type, jobs of other types fail: give them a queue of their own.\n\n" +
			"A line is logged for every job that ended, as text on a terminal, else as JSON.\n\n" +
			"Examples:\n" +
			"  holdfast work thumbs --concurrency 4 -- ./make-thumbnail\n" +
			"  holdfast work --queue urgent --queue mail -- sh -c 'jq -r .to | xargs ./send'",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "queue", Aliases: []string{"q"}, Usage: "queue to work on; may be repeated, in order of preference"},
			&cli.StringSliceFlag{Name: "type", Aliases: []string{"t"}, Usage: "handle this type only; may be repeated"},
			&cli.IntFlag{Name: "concurrency", Aliases: []string{"c"}, Value: 1, Action: positive[int]("concurrency"), Usage: "commands at a time"},
			&cli.DurationFlag{Name: "timeout", DefaultText: "the job's", Action: positive[time.Duration]("timeout"), Usage: "stop a run that takes longer, in the place of a longer timeout of its job"},
			&cli.DurationFlag{Name: "lease", Value: 30 * time.Second, Action: positive[time.Duration]("lease"), Usage: "how long a job outlives a worker that is gone"},
			&cli.DurationFlag{Name: "grace", Value: 30 * time.Second, Usage: "how long runs may go on after the first signal to stop"},
			urlFlag(),
		},
		Action: withClient(0, -1, work),
	}
}

func work(c *cli.Context, api *client.Client) error {
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
	terminal := isTerminal(c.App.ErrWriter)
	stderr := &sharedWriter{w: c.App.ErrWriter} // of the log and of every run
	log := newLogger(stderr, terminal)
	p := &program{path: path, args: c.Args().Tail(), url: api.URL, timeout: c.Duration("timeout"), stderr: stderr, log: log}
	opts := client.WorkerOptions{
		Queues: c.StringSlice("queue"), Concurrency: c.Int("concurrency"),
		Lease: c.Duration("lease"), Grace: c.Duration("grace"), Logger: log,
	}
	switch {
	case opts.Grace < 0:
		return usagef("--grace: %s is less than 0", span(opts.Grace))
	case opts.Grace == 0:
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
	if err := opts.Validate(); err != nil {
		return usagef("work: %v", err)
	}
	worker, err := client.NewWorker(api, opts)
	if err != nil {
		return err
	}
	log.Info("working", "queue", strings.Join(opts.Queues, ","), "concurrency", opts.Concurrency, "url", api.URL(), "command", path)
	tell := func() { log.Info("waiting for runs to end; a second signal stops now", "running", p.running.Load()) }
	if terminal {
		tell = func() { fmt.Fprintln(stderr, waitText(p.running.Load(), max(opts.Grace, 0))) }
	}
	defer onSignals(tell, worker.StopNow)()
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, done := context.WithCancel(c.Context)
	defer done()
	looking.Go(func() { logAbsent(ctx, log, api, opts.Queues) }) // nothing waits for it
	return worker.Run(c.Context)
}

// waitText tells a person what the first signal to stop has done.
func waitText(running int64, grace time.Duration) string {
	if running == 0 || grace == 0 {
		return "stopping"
	}
	jobs := "1 job"
	if running > 1 {
		jobs = number(running) + " jobs"
	}
	return "waiting up to " + span(grace) + " for " + jobs + "; again to stop now"
}

// onSignals calls first and second at the first and the second signal to stop,
// until done is called. A third one ends the process.
func onSignals(first, second func()) (done func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over := make(chan struct{})
	var heeding sync.WaitGroup
	heeding.Go(func() {
		defer signal.Stop(signals)
		for _, f := range []func(){first, second} {
			select {
			case <-signals:
				f()
			case <-over:
				return
			}
		}
	})
	return func() {
		close(over)
		heeding.Wait()
	}
}
