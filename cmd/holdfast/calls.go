package main

import (
	"cmp"
	"strings"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/client"
)

// withClient makes an action of do, which talks to the node that the flags
// name. The command has least to most arguments; most < 0 means any number.
func withClient(least, most int, do func(c *cli.Context, api *client.Client) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := wantArgs(c, least, most); err != nil {
			return err
		}
		// An empty HOLDFAST_URL is one that is not set.
		first, others, _ := strings.Cut(cmp.Or(c.String("url"), "http://"+node.DefaultListen), ",")
		roots, err := trust(c)
		if err != nil {
			return err
		}
		opts := client.Options{Token: tokenFor(c, first), TLS: roots}
		if others != "" {
			opts.Others = strings.Split(others, ",")
		}
		api, err := client.New(first, opts)
		if err != nil {
			return usagef("--url: %v", err)
		}
		defer api.Close()
		err = inFlags(c, do(c, api))
		if others != "" && isA[*client.UnreachableError](err) {
			return &noneAnswersError{err}
		}
		return err
	}
}

// noneAnswersError is a call that found no primary among several nodes.
type noneAnswersError struct{ err error }

func (e *noneAnswersError) Error() string { return e.err.Error() }
func (e *noneAnswersError) Unwrap() error { return e.err }

// severalNodes reports whether --url names more nodes than one.
func severalNodes(c *cli.Context) bool { return strings.Contains(c.String("url"), ",") }

// queueFlag names the one queue of a command, which may be an argument too.
func queueFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "queue", Aliases: []string{"q"}, Usage: usage}
}

// queueGiven takes the queue from --queue or from the first argument, and
// returns the arguments after it. Without either it is "".
func queueGiven(c *cli.Context) (queue string, rest []string) {
	if c.IsSet("queue") {
		return c.String("queue"), c.Args().Slice()
	}
	return c.Args().First(), c.Args().Tail()
}

func givenTwice(c *cli.Context, arg string) error {
	return usagef("%s: the queue is given twice, as %s and with --queue", c.Command.Name, arg)
}
