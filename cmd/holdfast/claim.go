package main

import (
	"cmp"
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
			"That no job is there is no error; a node that stops while it is asked is (exit code 5).\n\n" +
			"Examples:\n" +
			"  holdfast claim --queue mail\n" +
			"  holdfast claim --queue urgent --queue mail --max 10 --wait 20s --lease 2m --json",
		Flags: clientFlags(
			&cli.StringSliceFlag{Name: "queue", Aliases: []string{"q"}, Usage: "queue to take from; may be repeated, in order of preference"},
			&cli.IntFlag{Name: "max", Value: 1, Action: positive[int]("max"), Usage: "at most so many jobs"},
			&cli.DurationFlag{Name: "wait", Usage: "how long to wait for a first job, up to 60s"},
			leaseFlag("how long the claim lives without an extend"),
			&cli.StringFlag{Name: "worker", Usage: "name of the worker", DefaultText: "host:pid:random"},
		),
		Action: withClient(0, -1, claim),
	}
}

// leaseFlag is for a lease whose length the queue decides unless it is given.
func leaseFlag(usage string) cli.Flag {
	return &cli.DurationFlag{Name: "lease", DefaultText: "the queue's, 30s", Action: positive[time.Duration]("lease"), Usage: usage}
}

func claim(c *cli.Context, api *client.Client) error {
	queues := append(c.StringSlice("queue"), c.Args().Slice()...)
	if len(queues) == 0 {
		return usagef("claim: no queue is given; holdfast claim --queue QUEUE")
	}
	claims, err := api.Claim(c.Context, client.ClaimRequest{
		Queues: queues, Worker: cmp.Or(c.String("worker"), client.WorkerName()), Max: c.Int("max"),
		WaitMS: c.Duration("wait").Milliseconds(), LeaseMS: c.Duration("lease").Milliseconds(),
	})
	if err != nil {
		return err
	}
	if claims.Stopping && len(claims.Jobs) == 0 {
		return &notReadyError{[]string{"it is stopping"}}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, claims)
	}
	if len(claims.Jobs) == 0 {
		fmt.Fprintf(c.App.Writer, "no job is waiting in %s\n", strings.Join(queues, ", "))
		tellAbsent(c.Context, c.App.ErrWriter, api, queues...)
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
