package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

// Dead jobs that are selected, and gone through in steps.

const bulkText = "Jobs are named by their ids, or selected; --all selects every dead job. A selection is gone\n" +
	"through in steps, the latest jobs first, each step in the audit trail; with --rate at a pace that\n" +
	"their workers bear. An interrupt leaves the rest as it is, and the same command goes on with it.\n\n"

// deadFilterFlags select dead jobs.
func deadFilterFlags() []cli.Flag {
	return []cli.Flag{
		queueFlag("of this queue"),
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "of this type"},
		&cli.StringFlag{Name: "tag", Usage: "with the tag `NAME` or NAME=VALUE"},
		&cli.StringFlag{Name: "error", Aliases: []string{"e"}, Usage: "whose last error has this `FINGERPRINT`; dead groups shows it"},
		&cli.StringFlag{Name: "since", Usage: "dead since `TIME` (RFC 3339, a date, or for at most a duration such as 2h)"},
		&cli.StringFlag{Name: "before", Usage: "dead before `TIME` (RFC 3339, a date, or for longer than a duration such as 30d)"},
	}
}

// bulkFlags are those of a command that changes dead jobs, after its own.
func bulkFlags(own ...cli.Flag) []cli.Flag {
	return append(append(own, deadFilterFlags()...),
		&cli.BoolFlag{Name: "all", Usage: "every dead job"},
		&cli.IntFlag{Name: "rate", Action: notNegative("rate"), DefaultText: "as fast as the node goes", Usage: "at most `N` jobs a second of those that are selected"},
		&cli.BoolFlag{Name: "dry-run", Usage: "count the jobs and change nothing"},
	)
}

// notNegative is for a flag of which 0 means the same as its absence.
func notNegative(name string) func(*cli.Context, int) error {
	return func(_ *cli.Context, n int) error {
		if n < 0 {
			return usagef("--%s: %d is less than 0", name, n)
		}
		return nil
	}
}

// selection is the request that the flags of the command line make.
func selection(c *cli.Context, now time.Time) (req client.DeadRequest, selects bool, err error) {
	req = client.DeadRequest{
		Queue: c.String("queue"), Type: c.String("type"), Tag: strings.Replace(c.String("tag"), "=", ":", 1), Error: c.String("error"),
	}
	if req.SinceMS, err = pastTime(c, "since", now); err != nil {
		return req, false, err
	}
	if req.BeforeMS, err = pastTime(c, "before", now); err != nil {
		return req, false, err
	}
	return req, req.Queue+req.Type+req.Tag+req.Error != "" || req.SinceMS+req.BeforeMS > 0, nil
}

// pastTime reads a time, or a duration before now; 0 when the flag is not given.
func pastTime(c *cli.Context, name string, now time.Time) (int64, error) {
	text := c.String(name)
	if text == "" {
		return 0, nil
	}
	if d, err := parseSpan(text); err == nil {
		return now.Add(-d).UnixMilli(), nil
	}
	at, err := parseTime(text, now)
	if err != nil {
		return 0, usagef("--%s: %v, or a duration such as 2h or 30d", name, err)
	}
	return at.UnixMilli(), nil
}

// deadOrBulk does one, for each job that is named, or step, for those that are
// selected.
func deadOrBulk(one func(*cli.Context, *client.Client) error, step deadStepper, became string) func(*cli.Context, *client.Client) error {
	return func(c *cli.Context, api *client.Client) error {
		req, selects, err := selection(c, time.Now())
		switch {
		case err != nil:
			return err
		case c.Args().Len() > 0 && (selects || c.Bool("all") || c.Bool("dry-run")):
			return usagef("%s: jobs are either named by their ids or selected", c.Command.Name)
		case c.Args().Len() > 0 && c.IsSet("rate"):
			return usagef("%s: --rate is for jobs that are selected, not named by their ids", c.Command.Name)
		case c.Args().Len() > 0:
			return one(c, api)
		case !selects && !c.Bool("all"):
			return usagef("%s: name jobs by their ids, select them by --queue, --type, --tag, --error, --since or --before, or say --all", c.Command.Name)
		case c.IsSet("payload"):
			return usagef("%s: --payload is for one job, named by its id", c.Command.Name)
		}
		s := &sweep{api: api, step: step, req: req, rate: c.Int("rate"), progress: newSweepProgress(c)}
		if c.Bool("dry-run") {
			s.dry, s.rate = true, 0
		}
		err = s.run(c.Context)
		s.progress.end()
		return s.tell(c, became, err)
	}
}

// swept is what --json prints of a selection.
type swept struct {
	Count  int               `json:"count"`
	DryRun bool              `json:"dry_run"`
	Left   *int              `json:"left,omitempty"` // after an interrupt: that were selected and are as they were
	Error  *client.ErrorBody `json:"error,omitempty"`
}

// tell prints how a sweep ended.
func (s *sweep) tell(c *cli.Context, became string, err error) error {
	out := swept{Count: s.done, DryRun: s.dry}
	if err != nil {
		if s.done == 0 && !s.unsure && !errors.Is(err, context.Canceled) {
			return err // as of a command that did not begin
		}
		left, more, fault := s.left(c.Context)
		if fault == nil && !more {
			out.Left = &left
		}
		body := errorBody(err)
		out.Error = &body
		if !c.Bool("json") && !s.dry {
			fmt.Fprintln(c.App.ErrWriter, s.stopped(became, left, more, fault))
		}
	}
	switch {
	case c.Bool("json"):
		return printed(c.App.Writer, out, err)
	case err != nil:
		return err
	case s.dry:
		fmt.Fprintf(c.App.Writer, "%d jobs would be %s\n", s.done, became)
	default:
		fmt.Fprintf(c.App.Writer, "%d jobs are %s\n", s.done, became)
	}
	return nil
}

// stopped says what was done and what is left of a sweep that did not come to
// its end.
func (s *sweep) stopped(became string, left int, more bool, fault error) string {
	text := fmt.Sprintf("%d jobs are %s", s.done, became)
	if s.unsure {
		text += fmt.Sprintf(", perhaps up to %d more", s.req.Limit)
	}
	switch {
	case fault != nil:
		return text + "; the rest is as it was"
	case more:
		return text + fmt.Sprintf("; at least %d are left as they were, and the same command goes on with them", left)
	}
	return text + fmt.Sprintf("; %d are left as they were, and the same command goes on with them", left)
}

// sweep goes through a selection of dead jobs.
type sweep struct {
	api      *client.Client
	step     deadStepper
	req      client.DeadRequest // of the next step
	rate     int                // jobs a second; 0: one step after the other
	dry      bool
	progress *sweepProgress

	done   int  // jobs
	unsure bool // whether the last step, which failed, did something
}

type deadStepper func(*client.Client, context.Context, client.DeadRequest) (client.DeadStep, error)

const (
	bulkStep  = 500             // jobs that a step changes at most: few enough that the node answers others in between
	countTime = 2 * time.Second // that a count for a person may take
	stepGrace = 5 * time.Second // for the step that is under way at an interrupt
)

// run takes step after step until the end or an interrupt. The step that is
// under way then is waited for, so that it is known what was done.
func (s *sweep) run(ctx context.Context) error {
	s.req.DryRun, s.req.Limit = s.dry, bulkStep
	if s.rate > 0 {
		s.req.Limit = min(s.rate, bulkStep)
		s.countAll(ctx)
	}
	steps, stop := outlasting(ctx, stepGrace)
	defer stop()
	s.progress.begin()
	for due := time.Now(); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		step, err := s.step(s.api, steps, s.req)
		if err != nil {
			s.unsure = !s.dry && (client.Temporary(err) || errors.Is(err, context.Canceled))
			return err
		}
		s.done += step.Count
		if step.Next == nil {
			return nil
		}
		s.req.After = *step.Next
		s.progress.tell(s.done, s.rate)
		if s.rate > 0 { // a step that took longer than its time is not made up for
			due = latest(due.Add(time.Duration(step.Count)*time.Second/time.Duration(s.rate)), time.Now())
			if err := sleepUntil(ctx, due); err != nil {
				return err
			}
		}
	}
}

// countAll counts the jobs to come, for the progress.
func (s *sweep) countAll(ctx context.Context) {
	if s.progress.quiet {
		return
	}
	if n, more, err := s.count(ctx); err == nil && !more {
		s.progress.total = n
	}
}

// left counts the jobs that are still to come after an interrupt or an error.
func (s *sweep) left(ctx context.Context) (n int, more bool, err error) {
	if s.unsure || s.dry {
		return 0, false, errors.New("it is not known which are left")
	}
	return s.count(context.WithoutCancel(ctx))
}

// count counts the jobs from the next step on, for as long as a person likes to
// wait; there may be more.
func (s *sweep) count(ctx context.Context) (n int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*countTime)
	defer cancel()
	req := s.req
	req.DryRun = true
	for until := time.Now().Add(countTime); ; {
		step, err := s.step(s.api, ctx, req)
		if err != nil {
			return n, true, err
		}
		n += step.Count
		if step.Next == nil || time.Now().After(until) {
			return n, step.Next != nil, nil
		}
		req.After = *step.Next
	}
}

// outlasting is a context that ends so long after ctx.
func outlasting(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return later, func() { stop(); cancel() }
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sleepUntil waits for a time, or returns the error of ctx.
func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
