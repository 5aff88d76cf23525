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

func deadCommand() *cli.Command {
	return &cli.Command{
		Name:  "dead",
		Usage: "look at dead jobs, retry or archive them",
		Subcommands: []*cli.Command{
			{
				Name:        "list",
				Usage:       "list dead jobs",
				ArgsUsage:   "[QUEUE]",
				Description: "Examples:\n  holdfast dead list\n  holdfast dead list mail --wide\n  holdfast dead list mail --json",
				Flags:       clientFlags(listFlags()...),
				Action: withClient(0, 1, func(c *cli.Context, api *client.Client) error {
					return list(c, api, []string{"dead"})
				}),
			},
			{
				Name:      "retry",
				Usage:     "make dead jobs claimable again, with all their attempts",
				ArgsUsage: "[ID...]",
				Description: bulkText +
					"Examples:\n" +
					"  holdfast dead retry 7 8 9\n" +
					"  holdfast dead retry 7 --payload '{\"to\":\"b@example.com\"}'\n" +
					"  holdfast dead retry --queue mail --error 1a2b3c4d5e6f7a8b --dry-run\n" +
					"  holdfast dead retry --queue mail --since 2h",
				Flags: clientFlags(bulkFlags(
					&cli.StringFlag{Name: "payload", Usage: "`JSON` in the place of the job's payload, - for standard input"})...),
				Action: withClient(0, -1, deadOrBulk(retry, (*client.Client).RetryDead, "claimable again")),
			},
			{
				Name:      "archive",
				Usage:     "take dead jobs out of the counts and lists of dead jobs",
				ArgsUsage: "[ID...]",
				Description: bulkText +
					"Examples:\n" +
					"  holdfast dead archive 7 8 9\n" +
					"  holdfast dead archive --queue mail --before 30d",
				Flags:  clientFlags(bulkFlags()...),
				Action: withClient(0, -1, deadOrBulk(archive, (*client.Client).ArchiveDead, "archived")),
			},
		},
	}
}

const bulkText = "Jobs are named by their ids, or selected; --all selects every dead job. A selection is gone\n" +
	"through in steps, and an interrupt leaves the rest as it is.\n\n"

// bulkFlags are those of a command on dead jobs, after its own.
func bulkFlags(own ...cli.Flag) []cli.Flag {
	return append(own,
		queueFlag("of this queue"),
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "of this type"},
		&cli.StringFlag{Name: "tag", Usage: "with the tag `NAME` or NAME=VALUE"},
		&cli.StringFlag{Name: "error", Aliases: []string{"e"}, Usage: "whose last error has this `FINGERPRINT`; dead list --wide shows it"},
		&cli.StringFlag{Name: "since", Usage: "dead since `TIME` (RFC 3339, a date, or for at most a duration such as 2h)"},
		&cli.StringFlag{Name: "before", Usage: "dead before `TIME` (RFC 3339, a date, or for longer than a duration such as 30d)"},
		&cli.BoolFlag{Name: "all", Usage: "every dead job"},
		&cli.BoolFlag{Name: "dry-run", Usage: "count the jobs and change nothing"},
	)
}

// bulkStep is how many jobs a step changes: few enough that the node answers
// others in between.
const bulkStep = 500

type deadStepper func(*client.Client, context.Context, client.DeadRequest) (client.DeadStep, error)

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
		case c.Args().Len() > 0:
			return one(c, api)
		case !selects && !c.Bool("all"):
			return usagef("%s: name jobs by their ids, select them by --queue, --type, --tag, --error, --since or --before, or say --all", c.Command.Name)
		case c.IsSet("payload"):
			return usagef("%s: --payload is for one job, named by its id", c.Command.Name)
		}
		total, err := inSteps(c, api, req, step)
		if err != nil {
			if total > 0 {
				fmt.Fprintf(c.App.ErrWriter, "%d jobs are %s; the rest is as it was\n", total, became)
			}
			return err
		}
		if c.Bool("json") {
			return printJSON(c.App.Writer, struct {
				Count  int  `json:"count"`
				DryRun bool `json:"dry_run"`
			}{total, req.DryRun})
		}
		verb := "are"
		if req.DryRun {
			verb = "would be"
		}
		fmt.Fprintf(c.App.Writer, "%d jobs %s %s\n", total, verb, became)
		return nil
	}
}

// selection is the request that the flags of the command line make.
func selection(c *cli.Context, now time.Time) (req client.DeadRequest, selects bool, err error) {
	req = client.DeadRequest{
		Queue: c.String("queue"), Type: c.String("type"), Tag: strings.Replace(c.String("tag"), "=", ":", 1), Error: c.String("error"),
		DryRun: c.Bool("dry-run"), Limit: bulkStep,
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

// inSteps goes through a selection until its end, and tells how that gets on.
func inSteps(c *cli.Context, api *client.Client, req client.DeadRequest, step deadStepper) (total int, err error) {
	told := time.Now()
	for {
		done, err := step(api, c.Context, req)
		if err != nil {
			return total, err
		}
		total += done.Count
		if done.Next == nil {
			return total, nil
		}
		req.After = *done.Next
		if now := time.Now(); now.Sub(told) >= time.Second {
			told = now
			fmt.Fprintf(c.App.ErrWriter, "%d jobs so far\n", total)
		}
	}
}

func archiveCommand() *cli.Command {
	return &cli.Command{
		Name:        "archive",
		Usage:       "take dead jobs out of the counts and lists of dead jobs",
		ArgsUsage:   "ID...",
		Description: "They can still be looked at and retried. Many at a time: holdfast dead archive.\n\nExample:\n  holdfast archive 7 8",
		Flags:       clientFlags(),
		Action:      withClient(1, -1, archive),
	}
}

func archive(c *cli.Context, api *client.Client) error {
	return eachJob(c, func(id string) (client.Job, error) { return api.Archive(c.Context, id) })
}

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name:        "delete",
		Usage:       "delete jobs and all that is known of them",
		ArgsUsage:   "ID...",
		Description: "A running job cannot be deleted: cancel it first.\n\nExample:\n  holdfast delete 7 8",
		Flags:       clientFlags(),
		Action: withClient(1, -1, func(c *cli.Context, api *client.Client) error {
			var out struct {
				Deleted []string     `json:"deleted"`
				Errors  []notChanged `json:"errors,omitempty"`
			}
			out.Deleted = []string{}
			var failed []error
			for _, id := range c.Args().Slice() {
				if err := api.Delete(c.Context, id); err != nil {
					out.Errors = append(out.Errors, notChanged{id, errorBody(err)})
					failed = append(failed, err)
					continue
				}
				out.Deleted = append(out.Deleted, id)
				if !c.Bool("json") {
					fmt.Fprintf(c.App.Writer, "job %s is deleted\n", id)
				}
			}
			if c.Bool("json") {
				return printed(c.App.Writer, out, errors.Join(failed...))
			}
			return errors.Join(failed...)
		}),
	}
}

func retry(c *cli.Context, api *client.Client) error {
	var payload []byte
	if c.IsSet("payload") {
		if c.Args().Len() > 1 {
			return usagef("retry: --payload is for one job, and %d are given", c.Args().Len())
		}
		var err error
		if payload, err = jsonInput(c, "--payload", c.String("payload")); err != nil {
			return err
		}
	}
	return eachJob(c, func(id string) (client.Job, error) { return api.Retry(c.Context, id, payload) })
}

func cancelCommand() *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "cancel jobs",
		ArgsUsage: "ID...",
		Description: "A job that runs is cancelled when its worker hears of it, which is with its next\n" +
			"extend, and at the end of its lease at the latest.\n\n" +
			"Example:\n  holdfast cancel 7 8",
		Flags: clientFlags(),
		Action: withClient(1, -1, func(c *cli.Context, api *client.Client) error {
			return eachJob(c, func(id string) (client.Job, error) { return api.Cancel(c.Context, id) })
		}),
	}
}

// changed is what --json prints of several jobs: how they stand now, and why
// some could not be changed.
type changed struct {
	Jobs   []client.Job `json:"jobs"`
	Errors []notChanged `json:"errors,omitempty"`
}

type notChanged struct {
	ID    string           `json:"id"`
	Error client.ErrorBody `json:"error"`
}

// eachJob does something to every job of the command line and prints how they
// stand then. With --json one job is printed as such, several as a list.
func eachJob(c *cli.Context, do func(id string) (client.Job, error)) error {
	out := changed{Jobs: []client.Job{}}
	var failed []error
	for _, id := range c.Args().Slice() {
		job, err := do(id)
		if err != nil {
			out.Errors = append(out.Errors, notChanged{id, errorBody(err)})
			failed = append(failed, err)
			if client.Temporary(err) {
				break
			}
			continue
		}
		out.Jobs = append(out.Jobs, job)
		if !c.Bool("json") {
			fmt.Fprintf(c.App.Writer, "job %s in %s is %s\n", job.ID, job.Queue, stateText(job))
		}
	}
	err := errors.Join(failed...)
	switch {
	case !c.Bool("json"):
		return err
	case c.Args().Len() > 1:
		return printed(c.App.Writer, out, err)
	case err != nil:
		return err
	}
	return printJSON(c.App.Writer, out.Jobs[0])
}
