package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:  "export",
		Usage: "write all jobs out, a line of JSON each",
		Description: "Every job with its payload, its result and its failed runs, by id, in the form of get --json.\n" +
			"The node goes on meanwhile, so each job is as it was at one moment. A file is there under its\n" +
			"name when it is whole, and not before.\n\n" +
			"Examples:\n" +
			"  holdfast export -o jobs.ndjson\n" +
			"  holdfast export | jq -c 'select(.state==\"dead\") | .payload'",
		Flags: clientFlags(
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, which must not be there yet", DefaultText: "standard output"},
		),
		Action: withClient(0, 0, export),
	}
}

func export(c *cli.Context, api *client.Client) error {
	path := c.String("output")
	if path == "" || path == "-" {
		_, err := writeExport(c, api, c.App.Writer)
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return usagef("export: %s is there already; choose another name, or move it away", path)
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	jobs, err := writeExport(c, api, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			Output string `json:"output"`
			Jobs   int64  `json:"jobs"`
		}{path, jobs})
	}
	fmt.Fprintf(c.App.Writer, "%d jobs are in %s\n", jobs, path)
	return nil
}

func writeExport(c *cli.Context, api *client.Client, to io.Writer) (jobs int64, err error) {
	w := bufio.NewWriterSize(to, 256<<10)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for job, err := range api.Export(c.Context) {
		if err == nil {
			err = enc.Encode(job)
		}
		if err != nil {
			return jobs, errors.Join(err, w.Flush())
		}
		jobs++
	}
	return jobs, w.Flush()
}
