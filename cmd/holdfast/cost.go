package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
	"holdfast/replicate"
)

// pricesOf is the month of the list prices below. Storage and traffic come on top.
const pricesOf = "2026-11"

// prices are those of a provider, in US dollars a million requests, and what is
// free in a month. Deletions are free everywhere.
type prices struct {
	provider                    string
	put, get, list              float64
	freePut, freeGet, freeLists int64 // a month
	together                    bool  // freePut is for puts and lists together
}

// providers returns the table of prices. Sources: the providers' pages of prices.
func providers() []prices {
	return []prices{
		{provider: "AWS S3 Standard (us-east-1)", put: 5, get: 0.4, list: 5},
		{provider: "Tigris (Fly.io)", put: 5, get: 0.5, list: 5, freePut: 10_000, freeGet: 100_000, together: true},
		{provider: "Cloudflare R2", put: 4.5, get: 0.36, list: 4.5, freePut: 1_000_000, freeGet: 10_000_000, together: true},
		{provider: "Backblaze B2", put: 0, get: 0.4, list: 4, freeGet: 30 * 2500, freeLists: 30 * 2500},
	}
}

// month is what so many requests in a month cost.
func (p prices) month(r replicate.Requests) float64 {
	puts, lists := r.Put, r.List
	if p.together {
		// What is free goes to puts first; both cost the same.
		free := min(puts, p.freePut)
		puts -= free
		lists -= min(lists, p.freePut-free)
	}
	lists = max(lists-p.freeLists, 0)
	gets := max(r.Get-p.freeGet, 0)
	return (float64(puts)*p.put + float64(gets)*p.get + float64(lists)*p.list) / 1e6
}

// expense is a line of the answer: what a month costs, by provider.
type expense struct {
	What     string             `json:"what"`
	Requests client.Requests    `json:"requests"` // a month
	USD      map[string]float64 `json:"usd"`      // a month, by provider
}

func costCommand() *cli.Command {
	return &cli.Command{
		Name:  "cost",
		Usage: "say what the requests to the bucket cost a month",
		Description: "For the settings in force: idle, and at a rate of commits a second (a commit takes all\n" +
			"requests that come together). If the node at --url runs, also what a month costs at the\n" +
			"pace of the requests that it has counted since its start. At the list prices of " + pricesOf + ",\n" +
			"without storage and traffic.\n\n" +
			"Examples:\n  holdfast cost --config litestream.yml\n  holdfast cost --config litestream.yml --rate 0.1",
		Flags: rootFlags(
			&cli.Float64Flag{Name: "rate", Value: 1, Usage: "commits a second"},
			urlFlag(), tokenFlag(), caFlag(),
		),
		Action: withRoot(0, 0, cost),
	}
}

func cost(c *cli.Context, cfg replicate.Config) error {
	rate := c.Float64("rate")
	if !(rate >= 0 && rate <= 1e6) {
		return usagef("cost: --rate %v: write commits a second, from 0 to 1000000", rate)
	}
	lines := []expense{expenseOf("idle", cfg.Estimate(0)), expenseOf(fmt.Sprintf("%g commits/s", rate), cfg.Estimate(rate))}
	var counted *expense
	// The action of withClient gets the client that the flags name.
	err := withClient(0, 0, func(c *cli.Context, api *client.Client) error {
		status, err := api.Replication(c.Context)
		if err == nil && status.Requests.SinceMS > 0 {
			counted = paceOf(status.Requests, time.Now())
		}
		return err
	})(c)
	if isA[*usageError](err) {
		return err
	}
	if counted != nil {
		lines = append(lines, *counted)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			PricesOf string    `json:"prices_of"`
			Replica  string    `json:"replica"`
			Lines    []expense `json:"lines"`
		}{pricesOf, cfg.ReplicaURL(), lines})
	}
	fmt.Fprintf(c.App.Writer, "%s, US dollars a month for requests, list prices of %s\n\n", cfg.ReplicaURL(), pricesOf)
	if err := table(c.App.Writer, costRows(lines)); err != nil {
		return err
	}
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		fmt.Fprintf(c.App.Writer, "\nnothing is counted: %v\n", err)
	}
	return nil
}

func expenseOf(what string, r replicate.Requests) expense {
	e := expense{What: what, Requests: client.Requests{Put: r.Put, Get: r.Get, List: r.List, Delete: r.Delete}, USD: map[string]float64{}}
	for _, p := range providers() {
		e.USD[p.provider] = p.month(r)
	}
	return e
}

// paceOf takes counted requests to a month, or returns nil when they were
// counted for too short a time to say anything.
func paceOf(r client.Requests, now time.Time) *expense {
	since := now.Sub(time.UnixMilli(r.SinceMS))
	if since < time.Minute {
		return nil
	}
	scale := replicate.Month.Seconds() / since.Seconds()
	times := func(n int64) int64 { return int64(float64(n) * scale) }
	e := expenseOf("as counted for "+short(since), replicate.Requests{Put: times(r.Put), Get: times(r.Get), List: times(r.List), Delete: times(r.Delete)})
	return &e
}

func costRows(lines []expense) [][]string {
	head := []string{"", "PUT", "GET", "LIST"}
	for _, p := range providers() {
		head = append(head, p.provider)
	}
	rows := [][]string{head}
	for _, e := range lines {
		row := []string{e.What, number(e.Requests.Put), number(e.Requests.Get), number(e.Requests.List)}
		for _, p := range providers() {
			row = append(row, fmt.Sprintf("%.2f", e.USD[p.provider]))
		}
		rows = append(rows, row)
	}
	return rows
}
