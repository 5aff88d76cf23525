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
		Usage: "look at dead jobs, and retry them",
		Subcommands: []*cli.Command{
			{
				Name:        "list",
				Usage:       "list dead jobs",
				ArgsUsage:   "[QUEUE]",
				Description: "Examples:\n  holdfast dead list\n  holdfast dead list mail --json",
				Flags:       clientFlags(listFlags()...),
				Action: withClient(0, 1, func(c *cli.Context, api *client.Client) error {
					return list(c, api, []string{"dead"})
				}),
			},
			{
				Name:      "retry",
				Usage:     "make dead jobs claimable again, with all their attempts",
				ArgsUsage: "ID...",
				Description: "Examples:\n" +
					"  holdfast dead retry 7 8 9\n" +
					"  holdfast dead retry 7 --payload '{\"to\":\"b@example.com\"}'",
				Flags:  clientFlags(&cli.StringFlag{Name: "payload", Usage: "`JSON` in the place of the job's payload, - for standard input"}),
				Action: withClient(1, -1, retry),
			},
		},
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
