package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func claimCommand() *cli.Command {
	return &cli.Command{
		Name:      "claim",
		Usage:     "take jobs to work on",
		ArgsUsage: "[QUEUE...]",
		Description: "Prints each job with its lease token, which ack, fail, release and extend need.\n" +
			"A lease that is neither extended nor finished ends, and the job is claimed by another.\n" +
			"That no job is there is no error.\n\n" +
			"Examples:\n" +
			"  holdfast claim --queue mail\n" +
			"  holdfast claim --queue urgent --queue mail --max 10 --wait 20s --lease 2m --json",
		Flags: clientFlags(
			&cli.StringSliceFlag{Name: "queue", Aliases: []string{"q"}, Usage: "queue to take from; may be repeated, in order of preference"},
			&cli.IntFlag{Name: "max", Value: 1, Usage: "at most so many jobs"},
			&cli.DurationFlag{Name: "wait", Usage: "how long to wait for a first job, up to 60s"},
			&cli.DurationFlag{Name: "lease", Value: 30 * time.Second, Usage: "how long the claim lives without an extend"},
			&cli.StringFlag{Name: "worker", Usage: "name of the worker", DefaultText: "host:pid:random"},
		),
		Action: claim,
	}
}

func claim(c *cli.Context) error {
	queues := append(c.StringSlice("queue"), c.Args().Slice()...)
	if len(queues) == 0 {
		return usagef("claim: no queue is given; holdfast claim --queue QUEUE")
	}
	api, err := dial(c)
	if err != nil {
		return err
	}
	defer api.Close()
	worker := c.String("worker")
	if worker == "" {
		worker = client.WorkerName()
	}
	claims, err := api.Claim(c.Context, client.ClaimRequest{
		Queues: queues, Worker: worker, Max: c.Int("max"),
		WaitMS: c.Duration("wait").Milliseconds(), LeaseMS: c.Duration("lease").Milliseconds(),
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, claims)
	}
	if len(claims.Jobs) == 0 {
		fmt.Fprintf(c.App.Writer, "no job is waiting in %s\n", strings.Join(queues, ", "))
		return nil
	}
	rows := [][]string{{"ID", "QUEUE", "TYPE", "ATTEMPT", "LEASE", "PAYLOAD"}}
	for _, j := range claims.Jobs {
		rows = append(rows, []string{
			j.ID, j.Queue, j.Type, attemptText(j.Attempt, j.MaxAttempts), j.Lease, oneLine(string(j.Payload), 120),
		})
	}
	return table(c.App.Writer, rows)
}

func attemptText(attempt, most int) string { return strconv.Itoa(attempt) + "/" + strconv.Itoa(most) }

func ackCommand() *cli.Command {
	return &cli.Command{
		Name:      "ack",
		Usage:     "report that claimed jobs are done",
		ArgsUsage: "LEASE...",
		Description: "Examples:\n" +
			"  holdfast ack 1.7.1.x8Kf\n" +
			"  holdfast ack 1.7.1.x8Kf --result '{\"sent\":true}'",
		Flags: clientFlags(&cli.StringFlag{Name: "result", Usage: "`JSON` to keep with the job, - for standard input"}),
		Action: func(c *cli.Context) error {
			var acks []client.Ack
			var result []byte
			if c.IsSet("result") {
				var err error
				if result, err = jsonInput(c, "--result", c.String("result")); err != nil {
					return err
				}
			}
			for _, lease := range c.Args().Slice() {
				acks = append(acks, client.Ack{Lease: lease, Result: result})
			}
			return settle(c, func(api *client.Client) ([]client.Result, error) { return api.Ack(c.Context, acks...) })
		},
	}
}

func failCommand() *cli.Command {
	return &cli.Command{
		Name:      "fail",
		Usage:     "report that claimed jobs failed",
		ArgsUsage: "LEASE...",
		Description: "The job is tried again by its back-off, or is dead when its attempts are used up.\n\n" +
			"Examples:\n" +
			"  holdfast fail 1.7.1.x8Kf --error 'smtp 451'\n" +
			"  holdfast fail 1.7.1.x8Kf --error 'rate limited' --retry-in 1m\n" +
			"  holdfast fail 1.7.1.x8Kf --error 'no such address' --fatal",
		Flags: clientFlags(
			&cli.StringFlag{Name: "error", Aliases: []string{"e"}, Usage: "what went wrong"},
			&cli.DurationFlag{Name: "retry-in", Usage: "try again after so long, in the place of the back-off"},
			&cli.BoolFlag{Name: "fatal", Usage: "do not try again: the job is dead"},
		),
		Action: func(c *cli.Context) error {
			if c.Bool("fatal") && c.IsSet("retry-in") {
				return usagef("fail: --fatal and --retry-in exclude each other")
			}
			var retryIn *int64
			if c.IsSet("retry-in") {
				ms := c.Duration("retry-in").Milliseconds()
				retryIn = &ms
			}
			var fails []client.Fail
			for _, lease := range c.Args().Slice() {
				fails = append(fails, client.Fail{Lease: lease, Error: c.String("error"), RetryInMS: retryIn, Fatal: c.Bool("fatal")})
			}
			return settle(c, func(api *client.Client) ([]client.Result, error) { return api.Fail(c.Context, fails...) })
		},
	}
}

func releaseCommand() *cli.Command {
	return &cli.Command{
		Name:        "release",
		Usage:       "give claimed jobs back; it costs them no attempt",
		ArgsUsage:   "LEASE...",
		Description: "Example:\n  holdfast release 1.7.1.x8Kf",
		Flags:       clientFlags(),
		Action: func(c *cli.Context) error {
			var releases []client.Release
			for _, lease := range c.Args().Slice() {
				releases = append(releases, client.Release{Lease: lease})
			}
			return settle(c, func(api *client.Client) ([]client.Result, error) { return api.Release(c.Context, releases...) })
		},
	}
}

func extendCommand() *cli.Command {
	return &cli.Command{
		Name:      "extend",
		Usage:     "prolong the leases of claimed jobs",
		ArgsUsage: "LEASE...",
		Description: "Tells whether the job's cancellation was asked for.\n\n" +
			"Example:\n  holdfast extend 1.7.1.x8Kf --lease 2m --progress '{\"pages\":40}'",
		Flags: clientFlags(
			&cli.DurationFlag{Name: "lease", Value: 30 * time.Second, Usage: "how long from now"},
			&cli.StringFlag{Name: "progress", Usage: "`JSON` to show with the job, - for standard input"},
		),
		Action: func(c *cli.Context) error {
			var progress []byte
			if c.IsSet("progress") {
				var err error
				if progress, err = jsonInput(c, "--progress", c.String("progress")); err != nil {
					return err
				}
			}
			var extends []client.Extend
			for _, lease := range c.Args().Slice() {
				extends = append(extends, client.Extend{Lease: lease, LeaseMS: c.Duration("lease").Milliseconds(), Progress: progress})
			}
			return settle(c, func(api *client.Client) ([]client.Result, error) { return api.Extend(c.Context, extends...) })
		},
	}
}

// settle sends a batch and prints what became of each item. Items fail on
// their own; the error holds those that did.
func settle(c *cli.Context, send func(*client.Client) ([]client.Result, error)) error {
	if err := wantArgs(c, 1, -1); err != nil {
		return err
	}
	api, err := dial(c)
	if err != nil {
		return err
	}
	defer api.Close()
	results, err := send(api)
	if err != nil {
		return err
	}
	var failed []error
	for i, r := range results {
		if err := r.Err(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.Args().Get(i), err))
		}
	}
	if c.Bool("json") {
		failed = append(failed, printJSON(c.App.Writer, client.Results{Results: results}))
		return errors.Join(failed...)
	}
	for _, r := range results {
		if r.OK {
			fmt.Fprintln(c.App.Writer, resultText(r, time.Now()))
		}
	}
	return errors.Join(failed...)
}

func resultText(r client.Result, now time.Time) string {
	text := "job " + r.ID
	if r.LeaseUntilMS > 0 {
		text += " is yours until " + when(r.LeaseUntilMS, now)
	} else if r.State != "" {
		text += " is " + r.State
	}
	if r.RunAtMS > 0 {
		text += " for " + when(r.RunAtMS, now)
	}
	if r.Cancel {
		text += "; its cancellation was asked for: stop working on it"
	}
	return text
}
