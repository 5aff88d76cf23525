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
				Description: "Examples:\n  holdfast dead list\n  holdfast dead list --queue mail --json",
				Flags:       clientFlags(listFlags()...),
				Action:      func(c *cli.Context) error { return list(c, "dead") },
			},
			{
				Name:      "retry",
				Usage:     "make dead jobs claimable again, with all their attempts",
				ArgsUsage: "ID...",
				Description: "Examples:\n" +
					"  holdfast dead retry 7 8 9\n" +
					"  holdfast dead retry 7 --payload '{\"to\":\"b@example.com\"}'",
				Flags:  clientFlags(&cli.StringFlag{Name: "payload", Usage: "`JSON` in the place of the job's payload, - for standard input"}),
				Action: retry,
			},
		},
	}
}

func retry(c *cli.Context) error {
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
	return eachJob(c, func(api *client.Client, id string) (client.Job, error) { return api.Retry(c.Context, id, payload) })
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
		Action: func(c *cli.Context) error {
			return eachJob(c, func(api *client.Client, id string) (client.Job, error) { return api.Cancel(c.Context, id) })
		},
	}
}

// eachJob does something to every job of the command line and prints how they
// stand then. With --json one job is printed as such, several as a list.
func eachJob(c *cli.Context, do func(*client.Client, string) (client.Job, error)) error {
	if err := wantArgs(c, 1, -1); err != nil {
		return err
	}
	api, err := dial(c)
	if err != nil {
		return err
	}
	defer api.Close()
	jobs := []client.Job{}
	var failed []error
	for _, id := range c.Args().Slice() {
		job, err := do(api, id)
		if err != nil {
			failed = append(failed, err)
			if client.Temporary(err) {
				break
			}
			continue
		}
		jobs = append(jobs, job)
		if !c.Bool("json") {
			fmt.Fprintf(c.App.Writer, "job %s in %s is %s\n", job.ID, job.Queue, stateText(job))
		}
	}
	if c.Bool("json") {
		switch {
		case c.Args().Len() > 1:
			failed = append(failed, printJSON(c.App.Writer, client.Jobs{Jobs: jobs}))
		case len(jobs) == 1:
			failed = append(failed, printJSON(c.App.Writer, jobs[0]))
		}
	}
	return errors.Join(failed...)
}
