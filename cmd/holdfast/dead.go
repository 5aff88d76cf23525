package main

import (
	"errors"
	"fmt"

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
			deadGroupsCommand(),
			{
				Name:      "retry",
				Usage:     "make dead jobs claimable again, with all their attempts",
				ArgsUsage: "[ID...]",
				Description: bulkText +
					"Examples:\n" +
					"  holdfast dead retry 7 8 9\n" +
					"  holdfast dead retry 7 --payload '{\"to\":\"b@example.com\"}'\n" +
					"  holdfast dead retry --queue mail --error 1a2b3c4d5e6f7a8b --dry-run\n" +
					"  holdfast dead retry --queue mail --since 2h --rate 10",
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
