package main

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func ackCommand() *cli.Command {
	return &cli.Command{
		Name:      "ack",
		Usage:     "report that claimed jobs are done",
		ArgsUsage: "LEASE...",
		Description: "Examples:\n" +
			"  holdfast ack 1.7.1.x8Kf\n" +
			"  holdfast ack 1.7.1.x8Kf --result '{\"sent\":true}'",
		Flags: clientFlags(&cli.StringFlag{Name: "result", Usage: "`JSON` to keep with the job, - for standard input"}),
		Action: settle(func(c *cli.Context, api *client.Client) ([]client.Result, error) {
			var acks []client.Ack
			var result []byte
			if c.IsSet("result") {
				var err error
				if result, err = jsonInput(c, "--result", c.String("result")); err != nil {
					return nil, err
				}
			}
			for _, lease := range c.Args().Slice() {
				acks = append(acks, client.Ack{Lease: lease, Result: result})
			}
			return api.Ack(c.Context, acks...)
		}),
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
			&cli.DurationFlag{Name: "retry-in", DefaultText: "by the job's back-off", Usage: "try again after so long, in the place of the back-off"},
			&cli.BoolFlag{Name: "fatal", Usage: "do not try again: the job is dead"},
		),
		Action: settle(func(c *cli.Context, api *client.Client) ([]client.Result, error) {
			if c.Bool("fatal") && c.IsSet("retry-in") {
				return nil, usagef("fail: --fatal and --retry-in exclude each other")
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
			return api.Fail(c.Context, fails...)
		}),
	}
}

func releaseCommand() *cli.Command {
	return &cli.Command{
		Name:        "release",
		Usage:       "give claimed jobs back; it costs them no attempt",
		ArgsUsage:   "LEASE...",
		Description: "Example:\n  holdfast release 1.7.1.x8Kf",
		Flags:       clientFlags(),
		Action: settle(func(c *cli.Context, api *client.Client) ([]client.Result, error) {
			var releases []client.Release
			for _, lease := range c.Args().Slice() {
				releases = append(releases, client.Release{Lease: lease})
			}
			return api.Release(c.Context, releases...)
		}),
	}
}

func snoozeCommand() *cli.Command {
	return &cli.Command{
		Name:        "snooze",
		Usage:       "put claimed jobs off; it costs them no attempt",
		ArgsUsage:   "LEASE...",
		Description: "Example:\n  holdfast snooze 1.7.1.x8Kf --for 5m",
		Flags:       clientFlags(&cli.DurationFlag{Name: "for", DefaultText: "required", Usage: "how long from now"}),
		Action: settle(func(c *cli.Context, api *client.Client) ([]client.Result, error) {
			if !c.IsSet("for") {
				return nil, usagef("snooze: say how long: --for 5m")
			}
			if c.Duration("for") < 0 {
				return nil, usagef("--for: %s is less than 0", span(c.Duration("for")))
			}
			var snoozes []client.Snoozing
			for _, lease := range c.Args().Slice() {
				snoozes = append(snoozes, client.Snoozing{Lease: lease, DelayMS: c.Duration("for").Milliseconds()})
			}
			return api.Snooze(c.Context, snoozes...)
		}),
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
			leaseFlag("how long from now"),
			&cli.StringFlag{Name: "progress", Usage: "`JSON` to show with the job, - for standard input"},
		),
		Action: settle(func(c *cli.Context, api *client.Client) ([]client.Result, error) {
			var progress []byte
			if c.IsSet("progress") {
				var err error
				if progress, err = jsonInput(c, "--progress", c.String("progress")); err != nil {
					return nil, err
				}
			}
			var extends []client.Extend
			for _, lease := range c.Args().Slice() {
				extends = append(extends, client.Extend{Lease: lease, LeaseMS: c.Duration("lease").Milliseconds(), Progress: progress})
			}
			return api.Extend(c.Context, extends...)
		}),
	}
}

// settle makes an action of send, which sends a batch on the leases of the
// command line, and prints what became of each item. Items fail on their own;
// the error holds those that did.
func settle(send func(*cli.Context, *client.Client) ([]client.Result, error)) cli.ActionFunc {
	return withClient(1, -1, func(c *cli.Context, api *client.Client) error {
		for _, lease := range c.Args().Slice() {
			if !leaseToken.MatchString(lease) {
				return usagef("%s: %q is not a lease token; claim prints one with each job", c.Command.Name, oneLine(lease, 60))
			}
		}
		results, err := send(c, api)
		if err != nil {
			return err
		}
		var failed []error
		for i, r := range results {
			if err := r.Err(); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", c.Args().Get(i), err))
			} else if !c.Bool("json") {
				fmt.Fprintln(c.App.Writer, resultText(r, time.Now()))
			}
		}
		if c.Bool("json") {
			return printed(c.App.Writer, client.Results{Results: results}, errors.Join(failed...))
		}
		return errors.Join(failed...)
	})
}

// leaseToken is the form of a lease token: epoch, job, run and a seal.
var leaseToken = regexp.MustCompile(`^\d+\.\d+\.\d+\.[\w-]+$`)

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
