package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

const (
	maxPage        = 1000 // jobs that the node puts in one page
	maxPayloadPage = 40   // with payloads, which may have 1 MiB each
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list jobs",
		ArgsUsage: "[QUEUE]",
		Description: "Reads pages until --limit is filled. What follows is listed with --after.\n" +
			"Several states are listed one after the other.\n\n" +
			"Examples:\n" +
			"  holdfast list mail --state scheduled\n" +
			"  holdfast list --state running,queued\n" +
			"  holdfast list --state dead --tag tenant=7 --limit 500 --json",
		Flags: clientFlags(append(listFlags(),
			&cli.StringFlag{Name: "state", Aliases: []string{"s"}, Usage: "scheduled, queued, running, done, dead or cancelled; several with commas"})...),
		Action: withClient(0, 1, func(c *cli.Context, api *client.Client) error {
			states, err := statesOf(c.String("state"))
			if err != nil {
				return err
			}
			return list(c, api, states)
		}),
	}
}

// listFlags are those that list and dead list share.
func listFlags() []cli.Flag {
	return []cli.Flag{
		queueFlag("of this queue"),
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "of this type"},
		&cli.StringFlag{Name: "tag", Usage: "with the tag `NAME` or NAME=VALUE"},
		&cli.StringFlag{Name: "error", Aliases: []string{"e"}, Usage: "whose last error has this `FINGERPRINT` (error_fp)"},
		&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 100, Action: positive[int]("limit"), Usage: "at most so many jobs"},
		&cli.StringFlag{Name: "after", Usage: "what follows the list that ended with this `CURSOR`"},
		&cli.BoolFlag{Name: "payload", Usage: "show the payloads too"},
		&cli.BoolFlag{Name: "wide", Aliases: []string{"w"}, Usage: "show the fingerprints of errors too"},
	}
}

// statesOf splits states such as "dead,queued"; "" is one of any.
func statesOf(text string) ([]string, error) {
	var states []string
	for _, state := range strings.Split(strings.ToLower(text), ",") {
		state = strings.TrimSpace(state)
		if slices.Contains(states, state) {
			return nil, usagef("--state: %s is named twice", state)
		}
		if state == "" && text != "" {
			return nil, usagef("--state: %q names an empty state", text)
		}
		states = append(states, state)
	}
	return states, nil
}

func list(c *cli.Context, api *client.Client, states []string) error {
	queue, rest := queueGiven(c)
	if len(rest) > 0 {
		return givenTwice(c, rest[0])
	}
	jobs, err := readPages(c, api, client.Filter{
		Queue: queue, Type: c.String("type"),
		Tag:   strings.Replace(c.String("tag"), "=", ":", 1),
		Error: c.String("error"), WithPayload: c.Bool("payload"),
	}, states)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, jobs)
	}
	if err := table(c.App.Writer, jobRows(jobs.Jobs, c.Bool("payload"), c.Bool("wide"), time.Now())); err != nil {
		return err
	}
	if jobs.Next != nil {
		fmt.Fprintf(c.App.ErrWriter, "there is more: --after %s\n", *jobs.Next)
	}
	return nil
}

// readPages reads until the limit or the end of the last state. A page may be
// short, even empty, before the end. The cursor of a list of several states
// begins with the one that it is in: state:cursor.
func readPages(c *cli.Context, api *client.Client, f client.Filter, states []string) (client.Jobs, error) {
	after := c.String("after")
	several := len(states) > 1
	if several && after != "" {
		state, cursor, _ := strings.Cut(after, ":")
		at := slices.Index(states, state)
		if at < 0 {
			return client.Jobs{}, usagef("--after: %q is not where a list of %s ended", after, strings.Join(states, ", "))
		}
		states, after = states[at:], cursor
	}
	all := client.Jobs{Jobs: []client.Job{}}
	for i, state := range states {
		f.State, f.After = state, after
		next, err := readState(c, api, f, &all)
		if err != nil {
			return all, err
		}
		if next == "" {
			after = ""
			if i+1 == len(states) || len(all.Jobs) < c.Int("limit") {
				continue
			}
			state = states[i+1] // from its beginning
		}
		if several {
			next = state + ":" + next
		}
		all.Next = &next
		return all, nil
	}
	return all, nil
}

// readState adds jobs to all until the limit or the end, and returns the
// cursor; "" is the end.
func readState(c *cli.Context, api *client.Client, f client.Filter, all *client.Jobs) (next string, err error) {
	most := maxPage
	if f.WithPayload {
		most = maxPayloadPage
	}
	for {
		f.Limit = min(c.Int("limit")-len(all.Jobs), most)
		page, err := api.Jobs(c.Context, f)
		if err != nil {
			return "", err
		}
		all.Jobs = append(all.Jobs, page.Jobs...)
		switch {
		case page.Next == nil:
			return "", nil
		case len(all.Jobs) >= c.Int("limit"):
			return *page.Next, nil
		}
		f.After = *page.Next
	}
}

func jobRows(jobs []client.Job, payload, wide bool, now time.Time) [][]string {
	rows := [][]string{{"ID", "QUEUE", "TYPE", "STATE", "TRIES", "WHEN", "LAST ERROR"}}
	if wide {
		rows[0] = slices.Insert(rows[0], 6, "ERROR KIND")
	}
	if payload {
		rows[0] = append(rows[0], "PAYLOAD")
	}
	for _, j := range jobs {
		last := "-"
		if j.LastError != nil {
			last = oneLine(*j.LastError, 60)
		}
		row := []string{j.ID, j.Queue, j.Type, stateText(j), triesText(j), ago(since(j), now), last}
		if wide {
			row = slices.Insert(row, 6, cmp.Or(j.ErrorFP, "-"))
		}
		if payload {
			row = append(row, oneLine(string(j.Payload), 120))
		}
		rows = append(rows, row)
	}
	return rows
}

// triesText is how often the job was tried, and how often it may be. A run
// that was given back was no try.
func triesText(j client.Job) string {
	tries := j.Failures + j.Crashes
	if j.State == "running" || j.State == "done" {
		tries++
	}
	return strconv.Itoa(tries) + "/" + strconv.Itoa(j.MaxAttempts)
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
