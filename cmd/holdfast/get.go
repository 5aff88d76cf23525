package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "show a job and its runs",
		ArgsUsage: "ID",
		Description: "With --wait it waits for the job to be done, dead or cancelled, and shows the job as it\n" +
			"is after that time otherwise.\n\n" +
			"Examples:\n  holdfast get 7\n  holdfast get 7 --wait 30s --json",
		Flags: clientFlags(&cli.DurationFlag{Name: "wait", DefaultText: "not at all", Action: positive[time.Duration]("wait"), Usage: "wait so long for its end"}),
		Action: withClient(1, 1, func(c *cli.Context, api *client.Client) error {
			job, err := api.Wait(c.Context, c.Args().First(), c.Duration("wait"))
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, job)
			}
			return printJob(c.App.Writer, job, time.Now())
		}),
	}
}

// printJob prints all that is known of a job, what matters most first.
func printJob(w io.Writer, j client.Job, now time.Time) error {
	rows := [][]string{
		{"id", j.ID},
		{"queue", j.Queue},
		{"type", j.Type},
		{"state", stateText(j)},
		{"tries", triesText(j)},
		{"counts", fmt.Sprintf("runs %d, failures %d, crashes %d, interruptions %d", j.Run, j.Failures, j.Crashes, j.Interruptions)},
		{"priority", number(int64(j.Priority))},
		{"payload", inline(string(j.Payload))},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	at := func(name string, ms *int64) {
		if ms != nil {
			add(name, when(*ms, now))
		}
	}
	add("result", inline(string(j.Result)))
	add("progress", inline(string(j.Progress)))
	before := ""
	if j.State == "done" || j.Failures+j.Crashes == 0 {
		before = " (before)" // it was mended since, or tried anew by hand
	}
	if j.LastError != nil {
		add("last error"+before, inline(*j.LastError))
	}
	add("error kind"+before, j.ErrorFP)
	add("tags", tagText(j.Tags))
	add("trace", j.Traceparent)
	add("timeout", (time.Duration(j.TimeoutMS) * time.Millisecond).String())
	add("back-off", backoffText(j.Backoff))
	add("worker", j.LockedBy)
	at("created", &j.CreatedAtMS)
	at("run at", &j.RunAtMS)
	at("started", j.StartedAtMS)
	at("lease until", j.LeaseUntilMS)
	at("finished", j.FinishedAtMS)
	at("expires", j.ExpiresAtMS)
	at("archived", j.ArchivedAtMS)
	if err := table(w, rows); err != nil || len(j.Runs) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nRuns that did not end well:")
	return table(w, runRows(j.Runs, now))
}

func runRows(runs []client.Run, now time.Time) [][]string {
	rows := [][]string{{"RUN", "OUTCOME", "ENDED", "TOOK", "WORKER", "ERROR"}}
	for _, r := range runs {
		took := time.Duration(r.EndedAtMS-r.StartedAtMS) * time.Millisecond
		rows = append(rows, []string{number(r.Run), r.Outcome, ago(r.EndedAtMS, now), took.String(), r.Worker, oneLine(r.Error, 80)})
	}
	return rows
}

// inline keeps text of several lines within its column.
func inline(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = oneLine(lines[i], 2000)
	}
	return strings.Join(lines, "\n\t")
}

func tagText(tags map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, name+"="+tags[name])
	}
	return oneLine(strings.Join(out, " "), 2000)
}

func backoffText(b *client.Backoff) string {
	if b == nil {
		return ""
	}
	ms := func(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
	if len(b.DelaysMS) > 0 {
		var delays []string
		for _, d := range b.DelaysMS {
			delays = append(delays, ms(d))
		}
		return b.Kind + " " + strings.Join(delays, ", ")
	}
	text := b.Kind + " from " + ms(b.BaseMS)
	if b.MaxMS > 0 {
		text += ", at most " + ms(b.MaxMS)
	}
	return text
}
