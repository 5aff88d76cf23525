package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name:  "restore",
		Usage: "bring a copy of the database out of the replica",
		Description: "Writes it to a new file and checks it. The replica and a node that serves it are not\n" +
			"touched. A node that lost its disk needs no restore: it brings its database back by itself\n" +
			"when it starts. To go back to an earlier state, restore it, stop the node, adopt the file\n" +
			"and start the node.\n\n" +
			"Examples:\n" +
			"  holdfast restore -o copy.db\n" +
			"  holdfast restore -o before.db --time 2026-11-30T08:00:00Z\n" +
			"  holdfast restore -o exact.db --epoch 7 --txid 00000000000001f4 --full",
		Flags: rootFlags(
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FILE` to write, which must not be there yet"},
			&cli.StringFlag{Name: "txid", Usage: "up to this transaction, as replica ls prints it"},
			&cli.StringFlag{Name: "time", Usage: "as it was at this time, in RFC 3339 such as 2026-11-30T08:00:00Z"},
			&cli.Int64Flag{Name: "epoch", Usage: "of this epoch", DefaultText: "the one that is ready, or was at --time"},
			&cli.BoolFlag{Name: "full", Usage: "check every page and index, not the structure alone"},
		),
		Action: withRoot(0, 0, restore),
	}
}

// restored is what restore and replica verify tell.
type restored struct {
	Output    string `json:"output,omitempty"`
	Epoch     int64  `json:"epoch"`
	TXID      string `json:"txid"`
	Seq       int64  `json:"seq"`
	ReadBytes int64  `json:"read_bytes"` // from the replica
	Bytes     int64  `json:"bytes"`      // of the database
	TookMS    int64  `json:"took_ms"`
}

func restore(c *cli.Context, cfg replicate.Config) error {
	opts, err := restoreOptions(c, cfg)
	if err != nil {
		return err
	}
	got, err := bringBack(c, opts)
	if errors.Is(err, fs.ErrExist) {
		return usagef("restore: %s is there already; choose another name for the copy, or move it away", opts.Output)
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, got)
	}
	check := "its structure is whole"
	if opts.Full {
		check = "every page of it is whole"
	}
	fmt.Fprintf(c.App.Writer, "%s: epoch %d, TXID %s, seq %d, %s; %s\n", got.Output, got.Epoch, got.TXID, got.Seq, sizeText(got.Bytes), check)
	return nil
}

func restoreOptions(c *cli.Context, cfg replicate.Config) (replicate.RestoreOptions, error) {
	opts := replicate.RestoreOptions{
		Replica: cfg.Replica, Output: c.String("output"), Epoch: c.Int64("epoch"), Full: c.Bool("full"), Logger: commandLogger(c),
	}
	if opts.Output == "" {
		return opts, usagef("restore: name the file to write: -o FILE. " +
			"A node whose data directory is empty restores by itself; to give a node an earlier state, restore into a file and adopt it")
	}
	if c.IsSet("txid") && c.IsSet("time") {
		return opts, usagef("restore: --txid and --time exclude each other")
	}
	if c.IsSet("epoch") && opts.Epoch < 1 {
		return opts, usagef("--epoch: %d is not more than 0", opts.Epoch)
	}
	var err error
	if c.IsSet("txid") {
		if opts.TXID, err = parseTXID(c.String("txid")); err != nil {
			return opts, usagef("--txid: %v", err)
		}
	}
	if c.IsSet("time") {
		if opts.Time, err = parseTime(c.String("time"), time.Now()); err != nil {
			return opts, usagef("--time: %v", err)
		}
		if opts.Time.After(time.Now()) {
			return opts, usagef("--time: %s is yet to come", c.String("time"))
		}
	}
	return opts, nil
}

// parseTXID reads a TXID as txidText writes it; zeros in front may be left out.
func parseTXID(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a TXID; write it in hexadecimal, as replica ls prints it", text)
	}
	return n, nil
}

// txidText writes a TXID as Litestream does.
func txidText(txid uint64) string { return fmt.Sprintf("%016x", txid) }

// bringBack restores into a file, tells how that gets on, and looks at what
// came.
func bringBack(c *cli.Context, opts replicate.RestoreOptions) (restored, error) {
	began := time.Now()
	p := newProgress(c.App.ErrWriter, opts.Logger)
	opts.Progress = p.tell
	got, err := replicate.Restore(c.Context, opts)
	p.end()
	if err != nil {
		return restored{}, err
	}
	state, err := node.Inspect(c.Context, opts.Output)
	if err != nil {
		return restored{}, fmt.Errorf("look at what was restored: %w", err)
	}
	info, err := os.Stat(opts.Output)
	if err != nil {
		return restored{}, err
	}
	return restored{
		Output: opts.Output, Epoch: got.Epoch, TXID: txidText(got.TXID), Seq: state.Seq,
		ReadBytes: p.last.Bytes, Bytes: info.Size(), TookMS: time.Since(began).Milliseconds(),
	}, nil
}

// progress tells how a restore gets on: in a line that it rewrites on a
// terminal, and now and then in the log elsewhere.
type progress struct {
	w        io.Writer
	log      *slog.Logger
	terminal bool
	logged   time.Time
	wrote    bool
	last     replicate.Progress
}

func newProgress(w io.Writer, log *slog.Logger) *progress {
	return &progress{w: w, log: log, terminal: isTerminal(w), logged: time.Now()}
}

const logProgress = 5 * time.Second

func (p *progress) tell(now replicate.Progress) {
	p.last = now
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", progressText(now))
		p.wrote = true
		return
	}
	if time.Since(p.logged) >= logProgress {
		p.logged = time.Now()
		p.log.Info("restoring", "bytes", now.Bytes, "total", now.Total, "rate", int64(now.Rate()), "left", now.Left().Round(time.Second).String())
	}
}

// end leaves the line.
func (p *progress) end() {
	if p.wrote {
		fmt.Fprintln(p.w)
	}
}

func progressText(p replicate.Progress) string {
	text := fmt.Sprintf("restoring %s of %s, %s/s", sizeText(p.Bytes), sizeText(p.Total), sizeText(int64(p.Rate())))
	if left := p.Left(); left >= time.Second {
		text += ", " + short(left) + " left"
	}
	return text
}

// sizeText writes a size as a person reads it.
func sizeText(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}

// commandLogger is the logger of a command that does its work itself.
func commandLogger(c *cli.Context) *slog.Logger {
	return newLogger(c.App.ErrWriter, isTerminal(c.App.ErrWriter))
}
