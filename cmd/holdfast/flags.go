package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

const defaultURL = "http://127.0.0.1:7780"

func dataFlag() cli.Flag {
	return &cli.StringFlag{Name: "data", EnvVars: []string{"HOLDFAST_DATA"}, Value: "./data", Usage: "directory of the node's data"}
}

func listenFlag() cli.Flag {
	return &cli.StringFlag{Name: "listen", EnvVars: []string{"HOLDFAST_LISTEN"}, Value: "127.0.0.1:7780", Usage: "address to serve on, host:port"}
}

func urlFlag() cli.Flag {
	return &cli.StringFlag{Name: "url", EnvVars: []string{"HOLDFAST_URL"}, Value: defaultURL, Usage: "address of the node to talk to"}
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print the JSON of the API"}
}

// clientFlags are those of a command that talks to a node, after its own.
func clientFlags(own ...cli.Flag) []cli.Flag {
	return append(own, urlFlag(), jsonFlag())
}

// dial returns a client of the node that the flags name. It does not connect.
func dial(c *cli.Context) (*client.Client, error) {
	api, err := client.New(c.String("url"), client.Options{})
	if err != nil {
		return nil, usagef("--url: %v", err)
	}
	return api, nil
}

// wantArgs checks the number of arguments; most < 0 means any number.
func wantArgs(c *cli.Context, least, most int) error {
	n := c.Args().Len()
	usage := fmt.Sprintf("usage: holdfast %s %s", commandPath(c), c.Command.ArgsUsage)
	switch {
	case n < least:
		return usagef("%s: an argument is missing; %s", c.Command.Name, usage)
	case most >= 0 && n > most:
		return usagef("%s: %q is one argument too many; %s", c.Command.Name, c.Args().Get(most), usage)
	}
	return nil
}

// commandPath is the command as it is typed, such as "dead list".
func commandPath(c *cli.Context) string {
	path := c.Command.Name
	for _, up := range c.Lineage()[1:] {
		if up.Command != nil && up.Command.Name != "" && up.Command.Name != "holdfast" && up.Command.Name != c.Command.Name {
			path = up.Command.Name + " " + path
		}
	}
	return path
}
