package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"holdfast/node/bench"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure what this machine can do",
		Description: "Starts nodes of its own in a temporary directory, loads them and a yardstick in turns,\n" +
			"and prints jobs a second and ratios. A running node is not touched, but shares the machine.\n\n" +
			"Suites: " + strings.Join(bench.Suites(), ", ") + "; all runs each of them.\n" +
			"The suites latency, replication and edge need object storage: a bucket, named by --config, or\n" +
			"versitygw. depth and latency want 3 GB of disk in the temporary directory.\n\n" +
			"Examples:\n" +
			"  holdfast bench\n" +
			"  holdfast bench --suite http --json",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "suite", Value: "http", Usage: "what to measure"},
			&cli.IntFlag{Name: "jobs", Usage: "jobs of one measurement; 0: the suite's default"},
			&cli.StringFlag{Name: "config", Usage: "a litestream.yml with the bucket of the suites that need one, in which a new path is used"},
			&cli.BoolFlag{Name: "json", Usage: "print the report as one JSON object"},
		},
		Action: runBench,
	}
}

func runBench(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	opts := bench.Options{Exe: exe, Suite: c.String("suite"), Jobs: c.Int("jobs"), Config: c.String("config"), Log: c.App.ErrWriter}
	if err := opts.Validate(); err != nil {
		return usagef("bench: %v", err)
	}
	report, err := bench.Run(c.Context, opts)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, report)
	}
	if err := report.WriteTable(c.App.Writer); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
