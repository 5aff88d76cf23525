package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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
			Flags: append(settingFlags(), jsonFlag(),
				&cli.BoolFlag{Name: "origin", Usage: "print where each setting comes from"}),
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

// settingFlags are the flags of serve, but those that are hidden.
func settingFlags() []cli.Flag {
	return slices.DeleteFunc(serveFlags(), func(f cli.Flag) bool {
		v, ok := f.(cli.VisibleFlag)
		return ok && !v.IsVisible()
	})
}

// flagSettings are the settings that no file holds.
func flagSettings(c *cli.Context) []replicate.Setting {
	var out []replicate.Setting
	for _, f := range settingFlags() {
		out = append(out, flagSetting(c, f))
	}
	return append(out, secretSetting())
}

func flagSetting(c *cli.Context, f cli.Flag) replicate.Setting {
	name := f.Names()[0]
	s := replicate.Setting{Name: name, Value: settingText(c.Value(name)), Origin: "default"}
	for _, variable := range f.(cli.DocGenerationFlag).GetEnvVars() {
		if text, set := os.LookupEnv(variable); set && sameSetting(f, text, s.Value) {
			s.Origin = "env " + variable
		}
	}
	if s.Origin == "default" && c.IsSet(name) {
		s.Origin = "flag --" + name
	}
	switch {
	case name == "node" && s.Value == "":
		s.Value = node.DefaultNode()
	case name == "alert-webhook":
		s.Value = withoutSecret(s.Value)
	}
	return s
}

// settingText is the value of a flag as one writes it.
func settingText(value any) string {
	switch v := value.(type) {
	case time.Duration:
		return span(v)
	case cli.StringSlice:
		return strings.Join(v.Value(), ", ")
	}
	return fmt.Sprint(value)
}

// sameSetting reports whether text is another way to write the value of f.
func sameSetting(f cli.Flag, text, value string) bool {
	switch f.(type) {
	case *cli.DurationFlag:
		d, err := time.ParseDuration(text)
		return err == nil && span(d) == value
	case *cli.Int64Flag:
		n, err := strconv.ParseInt(text, 0, 64)
		return err == nil && number(n) == value
	}
	return text == value
}

// withoutSecret is a URL whose path or query may be what gives access.
func withoutSecret(text string) string {
	u, err := url.Parse(text)
	if err != nil || text != "" && u.Host == "" {
		return "…"
	}
	if u.User != nil || u.Path+u.RawQuery+u.Fragment != "" {
		return u.Scheme + "://" + u.Host + "/…"
	}
	return text
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
