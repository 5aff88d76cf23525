package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name:        "token",
		Usage:       "make, list and revoke access tokens",
		Subcommands: []*cli.Command{tokenCreateCommand(), tokenListCommand(), tokenRevokeCommand()},
	}
}

func tokenCreateCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "make an access token, and print its secret this once",
		ArgsUsage: "NAME",
		Description: "The scopes are enqueue, work (claim and finish jobs), view, payload (with view: see payloads\n" +
			"and results too) and admin (everything). A token is for all queues unless --queue names\n" +
			"some; * in a pattern stands for any letters. From the first token on, every request needs\n" +
			"one: the first must be for admin, unless the node was started with HOLDFAST_ADMIN_TOKEN.\n\n" +
			"Examples:\n" +
			"  holdfast token create me --scope admin\n" +
			"  holdfast token create shop --scope enqueue --queue 'mail*' --expires 90d\n" +
			"  HOLDFAST_TOKEN=$(holdfast token create worker --scope work --quiet)",
		Flags: clientFlags(
			&cli.StringSliceFlag{Name: "scope", Usage: "what it lets its bearer do; may be repeated"},
			&cli.StringSliceFlag{Name: "queue", Aliases: []string{"q"}, Usage: "a `PATTERN` of queues that it is for; may be repeated"},
			&cli.DurationFlag{Name: "expires", Usage: "how long it is good, such as 90d", DefaultText: "for ever", Action: positive[time.Duration]("expires")},
			&cli.BoolFlag{Name: "quiet", Usage: "print the secret alone"},
		),
		Action: withClient(1, 1, tokenCreate),
	}
}

func tokenCreate(c *cli.Context, api *client.Client) error {
	if len(c.StringSlice("scope")) == 0 {
		return usagef("token create: name at least one --scope: %s", strings.Join([]string{
			client.ScopeEnqueue, client.ScopeWork, client.ScopeView, client.ScopePayload, client.ScopeAdmin,
		}, ", "))
	}
	made, err := api.CreateToken(c.Context, client.TokenRequest{
		Name: c.Args().First(), Scopes: c.StringSlice("scope"), Queues: c.StringSlice("queue"), ExpiresInMS: c.Duration("expires").Milliseconds(),
	})
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return printJSON(c.App.Writer, made)
	case c.Bool("quiet"):
		fmt.Fprintln(c.App.Writer, made.Token)
		return nil
	}
	fmt.Fprintf(c.App.Writer, "%s\n\nThis is the secret of token %q (id %s); it is not shown again. It may %s on %s.\n"+
		"Use it as HOLDFAST_TOKEN, or as the header Authorization: Bearer …\n",
		made.Token, made.Name, made.ID, strings.Join(made.Scopes, ", "), queuesText(made.Queues))
	return nil
}

func queuesText(patterns []string) string {
	if len(patterns) == 1 && patterns[0] == "*" {
		return "every queue"
	}
	return strings.Join(patterns, ", ")
}

func tokenListCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list the access tokens, those that were revoked lately too",
		Description: "Secrets are not stored; their beginning tells them apart.\n\nExample:\n  holdfast token list",
		Flags:       clientFlags(),
		Action: withClient(0, 0, func(c *cli.Context, api *client.Client) error {
			tokens, err := api.Tokens(c.Context)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, client.Tokens{Tokens: tokens})
			}
			now := time.Now()
			rows := [][]string{{"ID", "NAME", "SECRET", "SCOPES", "QUEUES", "CREATED", "STATE"}}
			for _, t := range tokens {
				rows = append(rows, []string{
					t.ID, oneLine(t.Name, 40), t.Prefix + "…", strings.Join(t.Scopes, ","), strings.Join(t.Queues, ","), ago(t.CreatedAtMS, now), tokenState(&t, now),
				})
			}
			return table(c.App.Writer, rows)
		}),
	}
}

func tokenState(t *client.Token, now time.Time) string {
	switch {
	case t.RevokedAtMS != nil:
		return "revoked " + ago(*t.RevokedAtMS, now)
	case t.ExpiresAtMS == nil:
		return "good"
	case *t.ExpiresAtMS <= now.UnixMilli():
		return "expired " + ago(*t.ExpiresAtMS, now)
	}
	return "ends " + ago(*t.ExpiresAtMS, now)
}

func tokenRevokeCommand() *cli.Command {
	return &cli.Command{
		Name:        "revoke",
		Usage:       "make an access token worthless for ever",
		ArgsUsage:   "ID|NAME",
		Description: "At once on the node; a standby or an edge hears of it with the next commit it gets.\n\nExamples:\n  holdfast token revoke shop\n  holdfast token revoke 3",
		Flags:       clientFlags(),
		Action:      withClient(1, 1, tokenRevoke),
	}
}

func tokenRevoke(c *cli.Context, api *client.Client) error {
	which := c.Args().First()
	tokens, err := api.Tokens(c.Context)
	if err != nil {
		return err
	}
	id := ""
	for _, t := range tokens {
		if t.Name == which && t.RevokedAtMS == nil || id == "" && t.ID == which {
			id = t.ID
		}
	}
	if id == "" {
		return &client.Error{Code: client.CodeNotFound, Message: fmt.Sprintf("no such access token: %s", strconv.Quote(which))}
	}
	if err := api.RevokeToken(c.Context, id); err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, client.Revoked{ID: id, Revoked: true})
	}
	fmt.Fprintf(c.App.Writer, "token %s is revoked\n", which)
	return nil
}

func auditCommand() *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "show what was changed by hand, by whom and when",
		Description: "Retries, cancellations, deletions, settings and tokens of the last year, the newest first.\n\n" +
			"Examples:\n  holdfast audit\n  holdfast audit --limit 1000 --json",
		Flags: clientFlags(
			&cli.IntFlag{Name: "limit", Usage: "how many entries", Value: 100, Action: positive[int]("limit")},
			&cli.StringFlag{Name: "after", Usage: "go on after the entry of this `ID`"},
		),
		Action: withClient(0, 0, func(c *cli.Context, api *client.Client) error {
			page, err := api.Audit(c.Context, c.String("after"), c.Int("limit"))
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, page)
			}
			now := time.Now()
			rows := [][]string{{"ID", "WHEN", "WHO", "FROM", "WHAT", "ON", "COUNT", "DETAIL"}}
			for _, e := range page.Entries {
				rows = append(rows, []string{
					e.ID, ago(e.AtMS, now), oneLine(e.Actor, 40), e.Remote, e.Action, oneLine(orDash(e.Target), 60), number(e.Count), oneLine(orDash(string(e.Detail)), 80),
				})
			}
			return table(c.App.Writer, rows)
		}),
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
