package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"holdfast/replicate"
)

func gcCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "delete epochs that no restore needs any more",
		Description: "Those whose successor has been ready for longer than snapshots are kept. The newest two stay.\n" +
			"A primary does it by itself, once a day while there is work; this is for those who cannot wait.\n\n" +
			"Examples:\n  holdfast replica gc --dry-run\n  holdfast replica gc --config litestream.yml",
		Flags:  append(rootFlags(), &cli.BoolFlag{Name: "dry-run", Usage: "say what would be deleted, and delete nothing"}),
		Action: withRoot(0, 0, replicaGC),
	}
}

// collectedLine is an epoch of replica gc.
type collectedLine struct {
	Epoch int64 `json:"epoch"`
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func replicaGC(c *cli.Context, cfg replicate.Config) error {
	dry := c.Bool("dry-run")
	gone, err := replicate.Collect(c.Context, cfg, dry, commandLogger(c))
	if err != nil {
		return err
	}
	lines := make([]collectedLine, 0, len(gone))
	for _, e := range gone {
		lines = append(lines, collectedLine(e))
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			DryRun bool            `json:"dry_run"`
			Epochs []collectedLine `json:"epochs"`
		}{dry, lines})
	}
	verb := "deleted"
	if dry {
		verb = "would delete"
	}
	for _, e := range lines {
		fmt.Fprintf(c.App.Writer, "%s epoch %d: %d files, %d bytes\n", verb, e.Epoch, e.Files, e.Bytes)
	}
	if len(lines) == 0 {
		fmt.Fprintln(c.App.Writer, "every epoch is still needed")
	}
	return nil
}
