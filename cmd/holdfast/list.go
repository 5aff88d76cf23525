package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

const maxPage = 1000 // jobs that the node puts in one page

func listCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list jobs",
		Description: "Reads pages until --limit is filled. What follows is listed with --after.\n\n" +
			"Examples:\n" +
			"  holdfast list --queue mail --state scheduled\n" +
			"  holdfast list --state dead --tag tenant=7 --limit 500 --json",
		Flags: clientFlags(append(listFlags(),
			&cli.StringFlag{Name: "state", Aliases: []string{"s"}, Usage: "scheduled, queued, running, done, dead or cancelled"})...),
		Action: func(c *cli.Context) error { return list(c, c.String("state")) },
	}
}

// listFlags are those that list and dead list share.
func listFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "queue", Aliases: []string{"q"}, Usage: "of this queue"},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "of this type"},
		&cli.StringFlag{Name: "tag", Usage: "with the tag `NAME` or NAME=VALUE"},
		&cli.StringFlag{Name: "error", Aliases: []string{"e"}, Usage: "whose last error has this `FINGERPRINT` (error_fp)"},
		&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 100, Usage: "at most so many jobs"},
		&cli.StringFlag{Name: "after", Usage: "what follows the list that ended with this `CURSOR`"},
	}
}

func list(c *cli.Context, state string) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	limit := c.Int("limit")
	if limit < 1 {
		return usagef("--limit: %d is not 1 or more", limit)
	}
	api, err := dial(c)
	if err != nil {
		return err
	}
	defer api.Close()
	jobs, err := readPages(c, api, client.Filter{
		Queue: c.String("queue"), State: state, Type: c.String("type"),
		Tag:   strings.Replace(c.String("tag"), "=", ":", 1),
		Error: c.String("error"), After: c.String("after"),
	}, limit)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, jobs)
	}
	if err := table(c.App.Writer, jobRows(jobs.Jobs, time.Now())); err != nil {
		return err
	}
	if jobs.Next != nil {
		fmt.Fprintf(c.App.ErrWriter, "there is more: --after %s\n", *jobs.Next)
	}
	return nil
}

// readPages reads until limit jobs or the end. A page may be short, even
// empty, before the end.
func readPages(c *cli.Context, api *client.Client, f client.Filter, limit int) (client.Jobs, error) {
	all := client.Jobs{Jobs: []client.Job{}}
	for {
		f.Limit = min(limit-len(all.Jobs), maxPage)
		page, err := api.Jobs(c.Context, f)
		if err != nil {
			return all, err
		}
		all.Jobs = append(all.Jobs, page.Jobs...)
		all.Next = page.Next
		if page.Next == nil || len(all.Jobs) >= limit {
			return all, nil
		}
		f.After = *page.Next
	}
}

func jobRows(jobs []client.Job, now time.Time) [][]string {
	rows := [][]string{{"ID", "QUEUE", "TYPE", "STATE", "ATTEMPT", "WHEN", "LAST ERROR"}}
	for _, j := range jobs {
		last := "-"
		if j.LastError != nil {
			last = oneLine(*j.LastError, 60)
		}
		rows = append(rows, []string{
			j.ID, j.Queue, j.Type, stateText(j), attemptText(min(j.Attempt, j.MaxAttempts), j.MaxAttempts), ago(since(j), now), last,
		})
	}
	return rows
}

func stateText(j client.Job) string {
	switch {
	case j.State == "running" && j.CancelRequested:
		return "running (to be cancelled)"
	case j.ArchivedAtMS != nil:
		return j.State + " (archived)"
	}
	return j.State
}

// since is when a job came into its state, or will leave it.
func since(j client.Job) int64 {
	switch {
	case j.FinishedAtMS != nil:
		return *j.FinishedAtMS
	case j.State == "running" && j.StartedAtMS != nil:
		return *j.StartedAtMS
	}
	return j.RunAtMS
}
