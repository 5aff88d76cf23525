package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/client"
)

func dataFlag() cli.Flag {
	return &cli.StringFlag{Name: "data", EnvVars: []string{"HOLDFAST_DATA"}, Value: "./data", Usage: "directory of the node's data"}
}

func listenFlag() cli.Flag {
	return &cli.StringFlag{Name: "listen", EnvVars: []string{"HOLDFAST_LISTEN"}, Value: node.DefaultListen, Usage: "address to serve on, host:port"}
}

func urlFlag() cli.Flag {
	return &cli.StringFlag{Name: "url", EnvVars: []string{"HOLDFAST_URL"}, Value: "http://" + node.DefaultListen, Usage: "address of the node to talk to"}
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
	usage := fmt.Sprintf("usage: %s %s", c.Command.HelpName, c.Command.ArgsUsage)
	switch {
	case n < least:
		return usagef("%s: an argument is missing; %s", c.Command.Name, usage)
	case most >= 0 && n > most:
		return usagef("%s: %q is one argument too many; %s", c.Command.Name, c.Args().Get(most), usage)
	}
	return nil
}
