package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func handoverCommand() *cli.Command {
	return &cli.Command{
		Name:  "handover",
		Usage: "make the primary give way to its standby",
		Description: "The primary finishes what runs, uploads its last commits and closes the replica, so that a\n" +
			"standby takes it at once; then it is a standby itself. When none takes it, it serves again,\n" +
			"and the exit code is 1. Nothing that was acknowledged is lost. Needs failover: auto.\n\n" +
			"Examples:\n" +
			"  holdfast handover --url http://a:7780\n" +
			"  holdfast handover --url http://a:7780,http://b:7780   # whichever is the primary",
		Flags: clientFlags(),
		Action: withClient(0, 0, func(c *cli.Context, api *client.Client) error {
			to, err := api.Handover(c.Context)
			if err != nil {
				return err
			}
			gap := span(time.Duration(to.GapMS) * time.Millisecond)
			if !to.TakenOver {
				err = fmt.Errorf("nobody took over: node %q is the primary again, after %s without one; is a standby running?", to.Node, gap)
			}
			if c.Bool("json") {
				return printed(c.App.Writer, to, err)
			}
			if err == nil {
				fmt.Fprintf(c.App.Writer, "node %q (%s) is the primary now, in epoch %d; there was none for %s\n", to.Node, to.URL, to.Epoch, gap)
			}
			return err
		}),
	}
}
