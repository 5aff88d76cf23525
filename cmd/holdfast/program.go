package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"holdfast/node/client"
)

// command is the program's process for a job.
func (p *program) command(ctx context.Context, job client.Claimed) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Stdin = bytes.NewReader(job.Payload)
	cmd.Env = append(cmd.Environ(),
		"HOLDFAST_JOB_ID="+job.ID,
		"HOLDFAST_QUEUE="+job.Queue,
		"HOLDFAST_TYPE="+job.Type,
		"HOLDFAST_ATTEMPT="+strconv.Itoa(job.Attempt),
		"HOLDFAST_RUN="+strconv.FormatInt(job.Run, 10),
	)
	return cmd
}

// runGroup runs cmd in a process group of its own, so that a signal reaches
// what the command started too, and a Ctrl-C at the terminal reaches none of
// them. When ctx ends the group is asked to stop, and killed after killAfter.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	ownGroup(cmd)
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
		return fmt.Errorf("%w (%s)", context.Cause(ctx), cmd.ProcessState)
	}
	return errors.New(cmd.ProcessState.String())
}

// head keeps the first bytes that are written to it.
type head struct {
	bytes.Buffer
	limit int
	cut   bool // more was written
}

// Write implements io.Writer. It takes everything, so that a command that
// prints a lot is not stopped by it.
func (h *head) Write(b []byte) (int, error) {
	room := h.limit - h.Len()
	if len(b) > room {
		h.cut = true
		h.Buffer.Write(b[:room])
		return len(b), nil
	}
	return h.Buffer.Write(b)
}

// tail keeps the last bytes that are written to it, and passes all of them on.
type tail struct {
	kept  []byte
	limit int
	next  *sharedWriter
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*t.limit {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.limit:]...)
	}
	if _, err := t.next.Write(b); err != nil {
		return 0, fmt.Errorf("pass on: %w", err)
	}
	return len(b), nil
}

// String returns what was kept.
func (t *tail) String() string {
	return string(t.kept[max(len(t.kept)-t.limit, 0):])
}
