package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func deadGroupsCommand() *cli.Command {
	return &cli.Command{
		Name:      "groups",
		Usage:     "count dead jobs by queue and kind of error",
		ArgsUsage: "[QUEUE]",
		Description: "Errors are of one kind when they differ in numbers, ids and addresses alone. The kinds with\n" +
			"the most jobs come first, each with the job of it that was enqueued last.\n\n" +
			"Examples:\n" +
			"  holdfast dead groups\n" +
			"  holdfast dead groups mail --since 2h\n" +
			"  holdfast dead groups --type welcome --json",
		Flags: clientFlags(append(deadFilterFlags(),
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 100, Action: positive[int]("limit"), Usage: "at most so many kinds"})...),
		Action: withClient(0, 1, groupDead),
	}
}

func groupDead(c *cli.Context, api *client.Client) error {
	queue, rest := queueGiven(c)
	if len(rest) > 0 {
		return givenTwice(c, rest[0])
	}
	now := time.Now()
	req, _, err := selection(c, now)
	if err != nil {
		return err
	}
	req.Queue, req.Limit = queue, c.Int("limit")
	found, err := api.DeadGroups(c.Context, req)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, found)
	}
	if found.Kinds == 0 && !found.Partial {
		fmt.Fprintln(c.App.Writer, "no dead jobs")
		return nil
	}
	if err := table(c.App.Writer, groupRows(found.Groups, now)); err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "\n%s\n", groupsText(&found))
	hintOfGroups(c, found.Groups)
	return nil
}

func groupRows(groups []client.DeadGroup, now time.Time) [][]string {
	rows := [][]string{{"QUEUE", "JOBS", "ERROR KIND", "FOR EXAMPLE", "DIED", "LAST ERROR"}}
	for i := range groups {
		g := &groups[i]
		last := "-"
		if g.Sample.LastError != nil {
			last = oneLine(*g.Sample.LastError, 60)
		}
		rows = append(rows, []string{g.Queue, number(g.Jobs), cmp.Or(g.ErrorFP, "-"), "job " + g.Sample.ID, ago(since(g.Sample), now), last})
	}
	return rows
}

func groupsText(found *client.DeadGroups) string {
	text := fmt.Sprintf("%d dead jobs of %d kinds", found.Total, found.Kinds)
	if found.Kinds == 1 {
		text = fmt.Sprintf("%d dead jobs of one kind", found.Total)
	}
	if found.Partial {
		text = "at least " + text + "; there are too many to look at all, so narrow it, as by --queue or --error"
	}
	if shown := len(found.Groups); shown < found.Kinds {
		text += fmt.Sprintf("; %d are shown, --limit shows more", shown)
	}
	return text
}

// hintOfGroups says what to do next, for the first kind that can be selected.
func hintOfGroups(c *cli.Context, groups []client.DeadGroup) {
	for i := range groups {
		if groups[i].ErrorFP == "" {
			continue
		}
		args := "--queue " + groups[i].Queue + " --error " + groups[i].ErrorFP
		for _, name := range []string{"type", "tag", "since", "before"} {
			if value := c.String(name); value != "" {
				args += " --" + name + " " + shellWord(value)
			}
		}
		fmt.Fprintf(c.App.ErrWriter, "read one:      holdfast get %s\n"+
			"count them:    holdfast dead retry %s --dry-run\n"+
			"retry them:    holdfast dead retry %[2]s --rate 10\n", groups[i].Sample.ID, args)
		return
	}
}

var plainWord = regexp.MustCompile(`^[\w.:=/+@-]+$`)

// shellWord quotes a word for a shell, if it needs that.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
