package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func queuesCommand() *cli.Command {
	return &cli.Command{
		Name:  "queues",
		Usage: "list the queues with their counts, and change their settings",
		Description: "The last column has the settings that differ from the default.\n\n" +
			"Examples:\n  holdfast queues\n  holdfast queues set mail --max-attempts 10 --retain done=1d",
		Flags:       clientFlags(),
		Subcommands: []*cli.Command{queuesSetCommand()},
		Action: withClient(0, 0, func(c *cli.Context, api *client.Client) error {
			queues, err := api.Queues(c.Context)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, client.Queues{Queues: queues})
			}
			return table(c.App.Writer, queueRows(queues, time.Now()))
		}),
	}
}

func queuesSetCommand() *cli.Command {
	return &cli.Command{
		Name:      "set",
		Usage:     "change the settings of a queue, or show them",
		ArgsUsage: "QUEUE",
		Description: "Settings hold for the jobs that are there too; a job's own wishes come before them.\n" +
			"The value default takes a setting back. Without a flag the settings are shown.\n\n" +
			"Examples:\n" +
			"  holdfast queues set mail\n" +
			"  holdfast queues set mail --max-attempts 10 --timeout 2m --backoff exponential:15s:1h\n" +
			"  holdfast queues set mail --backoff list:1s,5s,1m --max-depth 100000\n" +
			"  holdfast queues set mail --retain done=1d --retain dead=forever --keep-last done=1000\n" +
			"  holdfast queues set mail --timeout default --retain done=default",
		Flags: clientFlags(
			&cli.StringFlag{Name: "max-attempts", Usage: "dead after `N` failures"},
			&cli.StringFlag{Name: "timeout", Usage: "bound of one run, a `DURATION` such as 10m"},
			&cli.StringFlag{Name: "lease", Usage: "how long a claim lives without an extend, a `DURATION` such as 30s"},
			&cli.StringFlag{Name: "backoff", Usage: "the wait between attempts: exponential:`BASE`:MAX, quadratic:BASE, fixed:BASE or list:FIRST,SECOND,…"},
			&cli.StringFlag{Name: "max-depth", Usage: "refuse new jobs when `N` are waiting"},
			&cli.StringFlag{Name: "durability", Usage: "local or replicated, for requests that do not say"},
			&cli.StringSliceFlag{Name: "retain", Usage: "how long to keep jobs that are done, dead or cancelled, as `STATE=DURATION` or STATE=forever; may be repeated"},
			&cli.StringSliceFlag{Name: "keep-last", Usage: "how many of them to keep, as `STATE=N`; may be repeated"},
			&cli.BoolFlag{Name: "create", Usage: "make the queue if it is not there"},
		),
		Action: withClient(1, 1, queuesSet),
	}
}

func queuesSet(c *cli.Context, api *client.Client) error {
	patch, err := patchOf(c)
	if err != nil {
		return err
	}
	var queue client.Queue
	if c.NumFlags() == 0 || !slices.ContainsFunc(c.LocalFlagNames(), isSetting) {
		queue, err = api.Queue(c.Context, c.Args().First())
	} else {
		queue, err = api.UpdateQueue(c.Context, c.Args().First(), patch)
	}
	if err != nil {
		return err
	}
	return printQueue(c, queue)
}

func isSetting(flag string) bool { return flag != "json" && flag != "url" }

func printQueue(c *cli.Context, q client.Queue) error {
	if c.Bool("json") {
		return printJSON(c.App.Writer, q)
	}
	rows := [][]string{{"queue", queueName(q.Name, q.Paused)}}
	own := q.OwnSettings
	if own == nil {
		own = &client.QueueSettings{}
	}
	if s := q.Settings; s != nil {
		rows = append(rows,
			[]string{"max attempts", strconv.Itoa(s.MaxAttempts) + ifDefault(own.MaxAttempts == 0)},
			[]string{"timeout", spanMS(s.TimeoutMS) + ifDefault(own.TimeoutMS == 0)},
			[]string{"lease", spanMS(s.LeaseMS) + ifDefault(own.LeaseMS == 0)},
			[]string{"back-off", backoffText(s.Backoff) + ifDefault(own.Backoff == nil)},
			[]string{"durability", s.Durability + ifDefault(own.Durability == "")},
		)
		if s.MaxDepth > 0 {
			rows = append(rows, []string{"max depth", number(s.MaxDepth)})
		}
		for _, state := range finalStates {
			text := ageText(s.RetentionMS[state])
			if n := s.KeepLast[state]; n > 0 {
				text += ", the last " + number(n)
			}
			rows = append(rows, []string{"keep " + state, text + ifDefault(own.RetentionMS[state] == 0 && own.KeepLast[state] == 0)})
		}
	}
	return table(c.App.Writer, rows)
}

// ifDefault marks a setting that nobody has set.
func ifDefault(is bool) string {
	if is {
		return " (default)"
	}
	return ""
}

var finalStates = []string{"done", "dead", "cancelled"}

func spanMS(ms int64) string { return span(time.Duration(ms) * time.Millisecond) }

func ageText(ms int64) string {
	if ms < 0 {
		return "for ever"
	}
	return "for " + spanMS(ms)
}

// patchOf makes a patch of the command line. To the API a zero value is the
// default.
func patchOf(c *cli.Context) (client.QueuePatch, error) {
	patch := client.QueuePatch{Create: c.Bool("create")}
	if c.IsSet("max-attempts") {
		n, err := numberOrDefault(c, "max-attempts")
		if err != nil {
			return patch, err
		}
		patch.MaxAttempts = new(int(n))
	}
	var err error
	if c.IsSet("max-depth") {
		n, err := numberOrDefault(c, "max-depth")
		if err != nil {
			return patch, err
		}
		patch.MaxDepth = &n
	}
	if patch.TimeoutMS, err = spanOrDefault(c, "timeout"); err != nil {
		return patch, err
	}
	if patch.LeaseMS, err = spanOrDefault(c, "lease"); err != nil {
		return patch, err
	}
	if c.IsSet("durability") {
		text := c.String("durability")
		if text == byDefault {
			text = ""
		}
		patch.Durability = &text
	}
	if c.IsSet("backoff") {
		if patch.Backoff, err = parseBackoff(c.String("backoff")); err != nil {
			return patch, usagef("--backoff: %v", err)
		}
	}
	if patch.RetentionMS, err = byState(c, "retain", parseAge); err != nil {
		return patch, err
	}
	patch.KeepLast, err = byState(c, "keep-last", parseCount)
	return patch, err
}

// byDefault is the value of a flag that takes a setting back.
const byDefault = "default"

func numberOrDefault(c *cli.Context, name string) (int64, error) {
	if c.String(name) == byDefault {
		return 0, nil
	}
	n, err := parseCount(c.String(name))
	if err != nil {
		return 0, usagef("--%s: %v", name, err)
	}
	return n, nil
}

// parseCount reads a number above 0: whoever writes 0 means something else than
// the default.
func parseCount(text string) (int64, error) {
	if err := checkNumber(text); err != nil {
		return 0, fmt.Errorf("%w; write a number, or default", err)
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || n <= 0 || n > 1<<31 {
		return 0, fmt.Errorf("%s is not from 1 to %d; default takes the setting back", text, 1<<31)
	}
	return n, nil
}

func parseAge(text string) (int64, error) {
	if text == "forever" {
		return -1, nil
	}
	return positiveSpan(text)
}

func positiveSpan(text string) (int64, error) {
	d, err := parseSpan(text)
	if err != nil {
		return 0, err
	}
	if d <= 0 {
		return 0, fmt.Errorf("%s is not more than 0; default takes the setting back", text)
	}
	return d.Milliseconds(), nil
}

// spanOrDefault is nil when the flag is not given.
func spanOrDefault(c *cli.Context, name string) (*int64, error) {
	if !c.IsSet(name) {
		return nil, nil
	}
	if c.String(name) == byDefault {
		return new(int64), nil
	}
	ms, err := positiveSpan(c.String(name))
	if err != nil {
		return nil, usagef("--%s: %v", name, err)
	}
	return &ms, nil
}

// byState reads flags such as --retain done=7d.
func byState(c *cli.Context, name string, parse func(string) (int64, error)) (map[string]*int64, error) {
	var out map[string]*int64
	for _, text := range c.StringSlice(name) {
		state, value, found := strings.Cut(text, "=")
		if !found || !slices.Contains(finalStates, state) {
			return nil, usagef("--%s: %q is not STATE=VALUE with one of %s", name, text, strings.Join(finalStates, ", "))
		}
		if _, twice := out[state]; twice {
			return nil, usagef("--%s: %s is given twice", name, state)
		}
		var n int64
		if value != byDefault {
			var err error
			if n, err = parse(value); err != nil {
				return nil, usagef("--%s: %s: %v", name, state, err)
			}
		}
		if out == nil {
			out = map[string]*int64{}
		}
		out[state] = &n
	}
	return out, nil
}

// parseBackoff reads exponential:15s:1h, quadratic:1m, fixed:10s or
// list:1s,5s,1m. The default is one of no kind.
func parseBackoff(text string) (*client.Backoff, error) {
	kind, rest, _ := strings.Cut(text, ":")
	b := &client.Backoff{Kind: kind}
	form := fmt.Errorf("%q is none of exponential:BASE:MAX, quadratic:BASE:MAX, fixed:BASE, list:FIRST,SECOND,… and default", text)
	switch {
	case text == byDefault:
		return &client.Backoff{}, nil
	case rest == "":
		return nil, form
	case kind == "list":
		for _, part := range strings.Split(rest, ",") {
			d, err := parseSpan(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			b.DelaysMS = append(b.DelaysMS, d.Milliseconds())
		}
		return b, nil
	case kind != "exponential" && kind != "quadratic" && kind != "fixed":
		return nil, form
	}
	base, most, bounded := strings.Cut(rest, ":")
	if bounded && kind == "fixed" {
		return nil, form
	}
	var err error
	if b.BaseMS, err = positiveSpan(base); err == nil && bounded {
		b.MaxMS, err = positiveSpan(most)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func pauseCommand() *cli.Command {
	return &cli.Command{
		Name:        "pause",
		Usage:       "stop handing out a queue's jobs",
		ArgsUsage:   "QUEUE",
		Description: "What runs goes on, and jobs can be enqueued.\n\nExample:\n  holdfast pause mail",
		Flags:       clientFlags(),
		Action: withClient(1, 1, func(c *cli.Context, api *client.Client) error {
			q, err := api.Pause(c.Context, c.Args().First())
			return paused(c, q, err)
		}),
	}
}

func resumeCommand() *cli.Command {
	return &cli.Command{
		Name:        "resume",
		Usage:       "hand out the jobs of a paused queue again",
		ArgsUsage:   "QUEUE",
		Description: "Example:\n  holdfast resume mail",
		Flags:       clientFlags(),
		Action: withClient(1, 1, func(c *cli.Context, api *client.Client) error {
			q, err := api.Resume(c.Context, c.Args().First())
			return paused(c, q, err)
		}),
	}
}

func paused(c *cli.Context, q client.Queue, err error) error {
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, q)
	}
	text := "hands out jobs"
	if q.Paused {
		text = "is paused"
	}
	fmt.Fprintf(c.App.Writer, "%s %s; %d wait and %d run\n", q.Name, text, q.Counts.Queued, q.Counts.Running)
	return nil
}

func queueRows(queues []client.Queue, now time.Time) [][]string {
	rows := [][]string{{"QUEUE", "QUEUED", "SCHEDULED", "RUNNING", "DONE", "DEAD", "CANCELLED", "OLDEST", "SETTINGS"}}
	for _, q := range queues {
		n := q.Counts
		rows = append(rows, []string{
			queueName(q.Name, q.Paused), number(n.Queued), number(n.Scheduled), number(n.Running),
			number(n.Done), number(n.Dead), number(n.Cancelled), agoOr(q.OldestQueuedAtMS, now, "-"), settingsText(q.Settings),
		})
	}
	return rows
}

// settingsText are settings as they are set.
func settingsText(s *client.QueueSettings) string {
	if s == nil {
		return "-"
	}
	var out []string
	add := func(is bool, name, value string) {
		if is {
			out = append(out, name+"="+value)
		}
	}
	add(s.MaxAttempts != 0, "max-attempts", strconv.Itoa(s.MaxAttempts))
	add(s.TimeoutMS != 0, "timeout", spanMS(s.TimeoutMS))
	add(s.LeaseMS != 0, "lease", spanMS(s.LeaseMS))
	add(s.Backoff != nil, "backoff", backoffText(s.Backoff))
	add(s.MaxDepth != 0, "max-depth", number(s.MaxDepth))
	add(s.Durability != "", "durability", s.Durability)
	for _, state := range slices.Sorted(maps.Keys(s.RetentionMS)) {
		text := "forever"
		if ms := s.RetentionMS[state]; ms >= 0 {
			text = spanMS(ms)
		}
		add(true, "retain "+state, text)
	}
	for _, state := range slices.Sorted(maps.Keys(s.KeepLast)) {
		add(true, "keep-last "+state, number(s.KeepLast[state]))
	}
	return strings.Join(out, " ")
}
