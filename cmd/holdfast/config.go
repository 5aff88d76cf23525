package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "look at the configuration",
		Subcommands: []*cli.Command{{
			Name:  "show",
			Usage: "print the settings that are in force",
			Description: "A flag counts before its HOLDFAST_ variable, that before the file, and the\n" +
				"file before the default. Secrets that are set are shown as … only.\n" +
				"Exits with 2 when the file is not right, with the lines to look at.\n\n" +
				"Examples:\n" +
				"  holdfast config show --origin\n" +
				"  holdfast config show --config litestream.yml --json",
			Flags: append([]cli.Flag{
				dataFlag(), listenFlag(), sqlListenFlag(), configFlag(), jsonFlag(),
				&cli.BoolFlag{Name: "origin", Usage: "print where each setting comes from"},
			}, serverSecurityFlags()...),
			Action: configShow,
		}},
	}
}

func configShow(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	settings := append(flagSettings(c), cfg.Settings()...)
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			Settings []replicate.Setting `json:"settings"`
		}{settings})
	}
	head := []string{"SETTING", "VALUE"}
	if c.Bool("origin") {
		head = append(head, "ORIGIN")
	}
	rows := [][]string{head}
	for _, s := range settings {
		row := []string{s.Name, s.Value}
		if s.Value == "" {
			row[1] = "-"
		}
		if c.Bool("origin") {
			row = append(row, s.Origin)
		}
		rows = append(rows, row)
	}
	return table(c.App.Writer, rows)
}

// flagSettings are the settings that no file holds.
func flagSettings(c *cli.Context) []replicate.Setting {
	var out []replicate.Setting
	for _, name := range []string{"data", "listen", "sql-listen", "config", "admin-token-file", "tls-cert", "tls-key"} {
		s := replicate.Setting{Name: name, Value: c.String(name), Origin: "default"}
		variable := envOf(c, name)
		value, set := os.LookupEnv(variable)
		switch {
		case set && value == s.Value:
			s.Origin = "env " + variable
		case c.IsSet(name):
			s.Origin = "flag --" + name
		}
		out = append(out, s)
	}
	return append(out, secretSetting())
}

// envOf is the environment variable that stands for a flag.
func envOf(c *cli.Context, name string) string {
	if f, ok := find(c.Command.Flags, name).(*cli.StringFlag); ok && len(f.EnvVars) > 0 {
		return f.EnvVars[0]
	}
	return ""
}

// loadConfig returns the replication settings for the data directory: those of
// the file that --config names, or the defaults. A file that is not right is a
// usage error of one line for each thing that is wrong with it.
func loadConfig(c *cli.Context) (replicate.Config, error) { return readConfig(c, true) }

// readConfig is loadConfig; one that is not own is for a program that has no
// database of its own, and may be that of the node which has it.
func readConfig(c *cli.Context, own bool) (replicate.Config, error) {
	data := c.String("data")
	cfg := replicate.DefaultConfig(data)
	var err error
	if path := c.String("config"); path != "" {
		cfg, err = replicate.LoadConfig(path)
	}
	if !own {
		cfg.DBPath = ""
	}
	if err == nil {
		cfg, err = cfg.ForDatabase(node.DatabasePath(data))
	}
	if err == nil {
		return cfg, nil
	}
	wrong, ok := errors.AsType[*replicate.ConfigError](err)
	if !ok {
		return replicate.Config{}, usagef("--config: %v", err)
	}
	var lines []error
	for _, problem := range wrong.Problems {
		lines = append(lines, usagef("%s", problem))
	}
	return replicate.Config{}, errors.Join(lines...)
}

// prepareEnvironment runs before every command. The one that runs programs for
// others leaves the environment to them as it is, and needs no bucket itself.
func prepareEnvironment(c *cli.Context) error {
	if c.Args().First() == "work" {
		return nil
	}
	keepPrivate()
	if err := replicate.PrepareEnvironment(); err != nil {
		fmt.Fprintf(c.App.ErrWriter, "holdfast: warning: %v\n", err)
	}
	return nil
}
