package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"holdfast/node/client"
)

const (
	exitFatal = 65 // EX_DATAERR of sysexits.h
	killAfter = 5 * time.Second
)

// program is a command that handles jobs.
type program struct {
	path    string
	args    []string
	url     func() string // of the node
	timeout time.Duration // of a run; 0: the job's alone
	stderr  *sharedWriter // of this process
	log     *slog.Logger
	running atomic.Int64
}

// handle runs the program for a job.
func (p *program) handle(ctx context.Context, job client.Claimed) (any, error) {
	p.running.Add(1)
	defer p.running.Add(-1)
	if p.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("the run took longer than --timeout %s", span(p.timeout)))
		defer cancel()
	}
	stdout := &head{limit: client.MaxResult}
	stderr := &tail{limit: client.MaxError, next: p.stderr}
	cmd := p.command(ctx, job)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// What it says once it is told to stop is about that, such as a shell's
	// "Terminated", and not the reason of a failure.
	err := runGroup(ctx, cmd, stderr.close)
	if err == nil {
		result, cut := resultOf(stdout)
		if cut {
			p.log.Warn("result cut to what a node keeps", "job", job.ID, "queue", job.Queue, "printed", stdout.wrote, "limit", client.MaxResult)
		}
		return result, nil
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
	room := client.MaxError - len(err.Error()) - len(": ")
	if over := len(said) - room; over > 0 {
		said = strings.ToValidUTF8(said[over:], "")
	}
	return fmt.Errorf("%w: %s", err, said)
}

// resultOf makes a result of what the program printed: JSON as it is, other
// text as a string, cut to what a node keeps.
func resultOf(printed *head) (result any, cut bool) {
	text := strings.TrimSpace(printed.kept.String())
	cut = printed.cut()
	switch {
	case text == "":
		return nil, cut
	case !cut && json.Valid([]byte(text)):
		return json.RawMessage(text), false
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	// Escapes make the JSON longer than the text, so the cut depends on it.
	for {
		encoded, err := json.Marshal(text)
		over := len(encoded) - client.MaxResult
		if err != nil || over <= 0 {
			return text, cut
		}
		cut = true
		keep := len(text) - max(over/6, 1)
		text = strings.ToValidUTF8(text[:max(keep, 0)], "")
	}
}

// command is the program's process for a job.
func (p *program) command(ctx context.Context, job client.Claimed) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Stdin = bytes.NewReader(job.Payload)
	cmd.Env = append(without(cmd.Environ(), "TRACEPARENT"), // the worker's own is not the job's
		"HOLDFAST_JOB_ID="+job.ID,
		"HOLDFAST_QUEUE="+job.Queue,
		"HOLDFAST_TYPE="+job.Type,
		"HOLDFAST_ATTEMPT="+strconv.Itoa(job.Attempt),
		"HOLDFAST_MAX_ATTEMPTS="+strconv.Itoa(job.MaxAttempts),
		"HOLDFAST_RUN="+strconv.FormatInt(job.Run, 10),
		"HOLDFAST_LEASE="+job.Lease,
		"HOLDFAST_URL="+p.url(),
	)
	if job.Traceparent != "" {
		cmd.Env = append(cmd.Env, "TRACEPARENT="+job.Traceparent)
	}
	return cmd
}

// without takes a variable out of an environment.
func without(env []string, name string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// runGroup runs cmd in a process group of its own, so that a signal reaches
// what the command started too, and a Ctrl-C at the terminal reaches none of
// them. When ctx ends told is called, the group is asked to stop, and killed
// after killAfter.
func runGroup(ctx context.Context, cmd *exec.Cmd, told func()) error {
	ownGroup(cmd)
	stop := cmd.Cancel
	cmd.Cancel = func() error {
		told()
		return stop()
	}
	defer dieWithUs(cmd)()
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	if ctx.Err() != nil {
		// Wait killed the leader at most; nothing of a run that is not wanted
		// any more may go on.
		killGroup(cmd)
	}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		// A child in the background that keeps the output open does not make a
		// command that exited with 0 fail.
		return nil
	case cmd.ProcessState == nil:
		return fmt.Errorf("cannot start: %w", err)
	case ctx.Err() != nil:
		// Also after an exit with 0: a program that stops politely when it is told
		// to says so too, and has not done its work.
		return context.Cause(ctx)
	}
	return errors.New(cmd.ProcessState.String())
}
