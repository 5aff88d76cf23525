package main

import (
	"fmt"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/client"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version of this program",
		Description: "With --json also the version of the database schema that it writes.\n\nExamples:\n  holdfast version --json",
		Flags:       []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			v := buildVersion()
			if c.Bool("json") {
				return printJSON(c.App.Writer, v)
			}
			fmt.Fprintf(c.App.Writer, "holdfast %s\ncommit  %s\ngo      %s\nsqlite  %s\n", v.Version, v.Commit, v.Go, v.SQLite)
			return nil
		},
	}
}

// buildVersion is what the linker and the build info say of this binary.
func buildVersion() client.Version {
	commit := "unknown"
	v := version
	if info, ok := debug.ReadBuildInfo(); ok {
		modified := false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if modified {
			commit += " (modified)"
		}
		// go install of a tagged version sets no linker flags.
		if v == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
	}
	return node.Versions(v, commit)
}
