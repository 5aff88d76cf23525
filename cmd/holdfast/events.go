package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func eventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "follow what happens to jobs",
		ArgsUsage: "[QUEUE]",
		Description: "Prints a line for each job that comes into another state, from now on, until it is\n" +
			"interrupted. With --json it prints the API's events, a line each: changes, and positions of\n" +
			"the database and its copy. No event has a payload.\n\n" +
			"Exits with 5 when the node stops or is not reached any more, and with 1 when it was too slow to\n" +
			"read all; what happened meanwhile is not shown again.\n\n" +
			"Examples:\n" +
			"  holdfast events mail\n" +
			"  holdfast events --json | jq -c '.changes.changes[]? | select(.to==\"dead\")'",
		Flags:  clientFlags(queueFlag("of the jobs of this queue only")),
		Action: withClient(0, 1, events),
	}
}

func events(c *cli.Context, api *client.Client) error {
	queue, rest := queueGiven(c)
	if len(rest) > 0 {
		return givenTwice(c, rest[0])
	}
	if queue != "" && !c.Bool("json") {
		tellAbsent(c.Context, c.App.ErrWriter, api, queue)
	}
	for event, err := range api.Events(c.Context, queue) {
		switch {
		case c.Context.Err() != nil: // which is how one stops it
			return nil
		case err != nil:
			return err
		case c.Bool("json"):
			if err := printJSON(c.App.Writer, event); err != nil {
				return err
			}
		case event.Changes != nil:
			if err := printChanges(c.App.Writer, event.Changes.Changes, time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
}

func printChanges(w io.Writer, changes []client.Change, now time.Time) error {
	for _, c := range changes {
		if _, err := fmt.Fprintf(w, "%s  %s  %s  %s → %s\n", now.Format("15:04:05.000"), c.Queue, c.ID,
			cmp.Or(c.From, "new"), cmp.Or(c.To, "deleted")); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
