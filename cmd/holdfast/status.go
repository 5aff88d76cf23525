package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show how the node and its queues are",
		ArgsUsage: "[QUEUE]",
		Description: "A line on the node, then one a queue: what waits, since when, what is dead, and the\n" +
			"last error. Exits with 5 when the node is not reached or not ready.\n\n" +
			"With --from it reads somewhere else: by SQL where a node serves it, as on the edge, from\n" +
			"another node, or straight from the replica, though no node lives; its keys are those of the\n" +
			"environment. Beyond this machine libsql:// means https; ?tls=0 says otherwise.\n\n" +
			"Examples:\n  holdfast status\n  holdfast status mail --json\n" +
			"  holdfast status --from libsql://edge.example\n  holdfast status --from 'libsql://127.0.0.1:7781'\n" +
			"  holdfast status --from s3://bucket/root\n  holdfast status --from file:///var/lib/holdfast/replica",
		Flags: clientFlags(queueFlag("of this queue only"),
			&cli.StringFlag{Name: "from", Usage: "`URL` to read from instead: https://host for the API, libsql://host, or a replica as s3://bucket/path"}),
		Action: func(c *cli.Context) error {
			from := c.String("from")
			if strings.HasPrefix(from, "libsql:") {
				return statusBySQL(c, from)
			}
			if strings.HasPrefix(from, "s3:") || strings.HasPrefix(from, "file:") {
				return statusOfReplica(c, from)
			}
			if from != "" {
				if err := c.Set("url", from); err != nil {
					return usagef("--from: %v", err)
				}
			}
			return withClient(0, 1, status)(c)
		},
	}
}

func status(c *cli.Context, api *client.Client) error {
	queue, rest := queueGiven(c)
	if len(rest) > 0 {
		return givenTwice(c, rest[0])
	}
	ready, err := api.Ready(c.Context)
	if err == nil && !ready.Ready && severalNodes(c) {
		// Any other call goes on from a standby to the primary, and Ready then asks that.
		if _, err := api.Health(c.Context, queue); err == nil {
			ready, err = api.Ready(c.Context)
			if err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	if !ready.Ready {
		return &notReadyError{ready.Reasons}
	}
	health, err := api.Health(c.Context, queue)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, health)
	}
	version, err := api.Version(c.Context)
	if err != nil {
		return err
	}
	return printHealth(c, api.URL()+"  holdfast "+version.Version, health)
}

// printHealth prints the table of a status, under a line that begins with from.
func printHealth(c *cli.Context, from string, health client.Health) error {
	fmt.Fprintf(c.App.Writer, "%s  %s\n\n", from, replicationText(health.Replication))
	if len(health.Queues) == 0 {
		fmt.Fprintln(c.App.Writer, "no queue yet; the first job makes one: holdfast enqueue QUEUE PAYLOAD")
		return nil
	}
	return table(c.App.Writer, healthRows(health, time.Now()))
}

// replicationText says where the node's data stands, and how far its copy is
// behind where it has one.
func replicationText(r client.Replication) string {
	text := fmt.Sprintf("seq %d.%d", r.Epoch, r.Seq)
	if r.ReplicatedSeq != nil {
		text += fmt.Sprintf("  replicated %d.%d", r.Epoch, *r.ReplicatedSeq)
	}
	if r.LagMS != nil {
		text += "  lag " + span(time.Duration(*r.LagMS)*time.Millisecond)
	}
	return text
}

func healthRows(health client.Health, now time.Time) [][]string {
	rows := [][]string{{"QUEUE", "QUEUED", "SCHEDULED", "RUNNING", "DONE", "DEAD", "OLDEST", "LAST ERROR"}}
	for _, q := range health.Queues {
		last := "-"
		if q.LastError != nil {
			last = oneLine(*q.LastError, 60)
			if q.LastErrorAtMS != nil {
				last += " (" + ago(*q.LastErrorAtMS, now) + ")"
			}
		}
		rows = append(rows, []string{
			queueName(q.Name, q.Paused), number(q.Queued), number(q.Scheduled), number(q.Running), number(q.Done), number(q.Dead),
			agoOr(q.OldestQueuedAtMS, now, "-"), last,
		})
	}
	return rows
}

func queueName(name string, paused bool) string {
	if paused {
		return name + " (paused)"
	}
	return name
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
