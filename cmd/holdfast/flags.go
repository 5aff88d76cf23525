package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"holdfast/node"
)

func dataFlag() cli.Flag {
	return &cli.StringFlag{Name: "data", EnvVars: []string{"HOLDFAST_DATA"}, Value: "./data", Usage: "directory of the node's data"}
}

func listenFlag() cli.Flag {
	return &cli.StringFlag{Name: "listen", EnvVars: []string{"HOLDFAST_LISTEN"}, Value: node.DefaultListen, Usage: "address to serve on, host:port"}
}

func sqlListenFlag() cli.Flag {
	return &cli.StringFlag{Name: "sql-listen", EnvVars: []string{"HOLDFAST_SQL_LISTEN"}, Usage: "address, host:port, for SQL clients that speak libSQL's protocol; off by default"}
}

func sqlOriginFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "sql-origin", EnvVars: []string{"HOLDFAST_SQL_ORIGIN"}, Usage: "`ORIGIN` of web pages that may read by SQL from a browser, such as https://app.example; may be repeated"}
}

func configFlag() cli.Flag {
	return &cli.StringFlag{Name: "config", EnvVars: []string{"HOLDFAST_CONFIG"}, Usage: "replication settings, a litestream.yml; without one the replica is a folder of the data directory"}
}

func metricsListenFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "metrics-listen", EnvVars: []string{"HOLDFAST_METRICS_LISTEN"}, DefaultText: "none",
		Usage: "a second address, for /metrics alone, which needs no token there",
	}
}

func nodeFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "node", EnvVars: []string{"HOLDFAST_NODE"}, DefaultText: "FLY_APP_NAME, else the hostname",
		Usage: "name of the node; the same when it comes back on another disk",
	}
}

func urlFlag() cli.Flag {
	return &cli.StringFlag{Name: "url", EnvVars: []string{"HOLDFAST_URL"}, Value: "http://" + node.DefaultListen, Usage: "address of the node to talk to"}
}

func jsonFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print the JSON of the API"}
}

// clientFlags are those of a command that talks to a node, after its own.
func clientFlags(own ...cli.Flag) []cli.Flag {
	return append(own, urlFlag(), tokenFlag(), caFlag(), jsonFlag())
}

// wantArgs checks the number of arguments; most < 0 means any number.
func wantArgs(c *cli.Context, least, most int) error {
	n := c.Args().Len()
	usage := fmt.Sprintf("usage: %s %s", c.Command.HelpName, c.Command.ArgsUsage)
	switch {
	case slices.Contains(c.Args().Slice(), "") && !runsCommand(c.Command):
		return usagef("%s: an argument is empty; %s", c.Command.Name, usage)
	case n < least:
		return usagef("%s: an argument is missing; %s", c.Command.Name, usage)
	case most >= 0 && n > most:
		return usagef("%s: %q is one argument too many; %s", c.Command.Name, c.Args().Get(most), usage)
	}
	return nil
}
