package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

const maxInput = 16 << 20 // bytes from stdin; the node has its own, lower limits

func enqueueCommand() *cli.Command {
	return &cli.Command{
		Name:      "enqueue",
		Usage:     "add a job to a queue",
		ArgsUsage: "QUEUE [PAYLOAD|-]",
		Description: "The payload is any JSON value; - reads it from standard input; without one it is null.\n" +
			"A --key makes it safe to run the same command twice.\n\n" +
			"Examples:\n" +
			"  holdfast enqueue mail '{\"to\":\"a@example.com\"}' --type welcome\n" +
			"  holdfast enqueue mail '\"a string has quotes of its own\"'\n" +
			"  holdfast enqueue reports --delay 5m --priority 10 --tag tenant=7\n" +
			"  generate-report | holdfast enqueue reports - --key report:2026-07\n" +
			"  id=$(holdfast enqueue mail --quiet) && holdfast get \"$id\"",
		Flags: clientFlags(
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "what the worker dispatches on"},
			&cli.IntFlag{Name: "priority", Aliases: []string{"p"}, Usage: "higher first, -1000 to 1000"},
			&cli.DurationFlag{Name: "delay", DefaultText: "none", Usage: "do not run before so long from now, such as 5m or 3d"},
			&cli.StringFlag{Name: "run-at", Usage: "do not run before `TIME` (RFC 3339, or a date)"},
			&cli.IntFlag{Name: "max-attempts", DefaultText: "the queue's, 5", Action: positive[int]("max-attempts"), Usage: "dead after so many failures"},
			&cli.DurationFlag{Name: "timeout", DefaultText: "the queue's, 10m", Action: positive[time.Duration]("timeout"), Usage: "bound of one run"},
			&cli.StringFlag{Name: "backoff", DefaultText: "the queue's", Usage: "the wait between attempts: exponential:`BASE`:MAX, quadratic:BASE, fixed:BASE or list:FIRST,SECOND,…"},
			&cli.StringFlag{Name: "durability", DefaultText: "the queue's", Usage: "answer when the job is `local`, on the node's disk, or replicated, in object storage"},
			&cli.StringFlag{Name: "key", Usage: "idempotency key: a job with the same `KEY` is not added twice"},
			&cli.StringSliceFlag{Name: "tag", Usage: "tag as `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "traceparent", Usage: "trace that the job belongs to, of W3C Trace Context", DefaultText: "TRACEPARENT, where that is one"},
			&cli.StringFlag{Name: "expires", Usage: "never run after `TIME` (RFC 3339, a date, or a duration from now)"},
			queueFlag("queue to add to, in the place of the first argument"),
			&cli.BoolFlag{Name: "quiet", Usage: "print the job's id alone"},
		),
		Action: withClient(0, 2, enqueue),
	}
}

func enqueue(c *cli.Context, api *client.Client) error {
	spec, err := specOf(c, time.Now())
	if err != nil {
		return err
	}
	jobs, err := api.Enqueue(c.Context, spec)
	if err != nil {
		return err
	}
	job := jobs[0]
	if c.Bool("json") {
		return printJSON(c.App.Writer, job)
	}
	switch {
	case c.Bool("quiet"):
		fmt.Fprintln(c.App.Writer, job.ID)
	case job.Duplicate:
		fmt.Fprintf(c.App.Writer, "job %s in %s has this key already; it is %s\n", job.ID, job.Queue, job.State)
	case job.State == "scheduled":
		fmt.Fprintf(c.App.Writer, "job %s scheduled in %s for %s\n", job.ID, job.Queue, when(job.RunAtMS, time.Now()))
	default:
		fmt.Fprintf(c.App.Writer, "job %s %s in %s\n", job.ID, job.State, job.Queue)
	}
	return nil
}

// specOf makes a spec of the command line.
func specOf(c *cli.Context, now time.Time) (client.Spec, error) {
	queue, rest := queueGiven(c)
	switch {
	case queue == "":
		return client.Spec{}, usagef("enqueue: no queue is given; usage: %s %s", c.Command.HelpName, c.Command.ArgsUsage)
	case len(rest) > 1:
		return client.Spec{}, usagef("enqueue: %q is one argument too many; --queue takes the place of the first", rest[1])
	}
	spec := client.Spec{
		Queue:          queue,
		Type:           c.String("type"),
		Priority:       c.Int("priority"),
		DelayMS:        c.Duration("delay").Milliseconds(),
		MaxAttempts:    c.Int("max-attempts"),
		TimeoutMS:      c.Duration("timeout").Milliseconds(),
		IdempotencyKey: c.String("key"),
		Durability:     c.String("durability"),
		Traceparent:    c.String("traceparent"),
	}
	// A job that a command of holdfast work adds belongs to the trace of its own.
	// What others put there is theirs to mend.
	if trace := os.Getenv("TRACEPARENT"); !c.IsSet("traceparent") && client.ValidTraceparent(trace) {
		spec.Traceparent = trace
	}
	var err error
	if c.IsSet("backoff") {
		if spec.Backoff, err = parseBackoff(c.String("backoff")); err != nil {
			return spec, usagef("--backoff: %v", err)
		}
		if spec.Backoff.Kind == "" {
			spec.Backoff = nil // the queue's
		}
	}
	if len(rest) == 1 {
		if spec.Payload, err = jsonInput(c, "payload", rest[0]); err != nil {
			return spec, err
		}
	}
	if c.IsSet("run-at") {
		at, err := parseTime(c.String("run-at"), now)
		if err != nil {
			return spec, usagef("--run-at: %v", err)
		}
		spec.RunAtMS = at.UnixMilli()
	}
	if c.IsSet("expires") {
		at, err := timeOrSpan(c.String("expires"), now)
		if err != nil {
			return spec, usagef("--expires: %v", err)
		}
		if !at.After(now) {
			return spec, usagef("--expires: %s is over; the job would never run", c.String("expires"))
		}
		spec.ExpiresAtMS = at.UnixMilli()
	}
	for _, tag := range c.StringSlice("tag") {
		name, value, ok := strings.Cut(tag, "=")
		if !ok || name == "" {
			return spec, usagef("--tag: %q is not NAME=VALUE", tag)
		}
		if spec.Tags == nil {
			spec.Tags = map[string]string{}
		}
		spec.Tags[name] = value
	}
	return spec, nil
}

// timeOrSpan reads a time, or a duration from now.
func timeOrSpan(text string, now time.Time) (time.Time, error) {
	if d, err := parseSpan(text); err == nil {
		return now.Add(d), nil
	}
	at, err := parseTime(text, now)
	if err != nil {
		return at, fmt.Errorf("%w, or a duration such as 2h or 3d", err)
	}
	return at, nil
}

// jsonInput is a JSON value of the command line, or of standard input for "-".
func jsonInput(c *cli.Context, what, arg string) (json.RawMessage, error) {
	if arg == "-" {
		text, err := io.ReadAll(io.LimitReader(c.App.Reader, maxInput+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s from standard input: %w", what, err)
		case len(text) > maxInput:
			return nil, usagef("%s: standard input is longer than %d bytes", what, maxInput)
		case !json.Valid(text):
			return nil, usagef("%s: standard input is not JSON%s; a string needs double quotes", what, jsonFault(text))
		}
		return text, nil
	}
	if !json.Valid([]byte(arg)) {
		quoted, _ := json.Marshal(arg)
		return nil, usagef("%s: %s is not JSON%s; if you mean a string, quote it: '%s'", what, oneLine(arg, 60), jsonFault([]byte(arg)), oneLine(string(quoted), 60))
	}
	return json.RawMessage(arg), nil
}

func jsonFault(text []byte) string {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return " (" + err.Error() + ")"
	}
	return ""
}
