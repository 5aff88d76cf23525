package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

func replicaCommand() *cli.Command {
	return &cli.Command{
		Name:  "replica",
		Usage: "look at the copy of the database",
		Subcommands: []*cli.Command{
			{
				Name:  "url",
				Usage: "print where the present epoch is",
				Description: "The stock Litestream restores from it, with the keys in its environment. It moves on with\n" +
					"each epoch: ask again when a node has taken over.\n\n" +
					"Example:\n  litestream restore -o copy.db \"$(holdfast replica url)\"",
				Flags:  rootFlags(),
				Action: withRoot(0, 0, replicaURL),
			},
			{
				Name:  "config",
				Usage: "print a litestream.yml for the stock Litestream",
				Description: "It restores the present epoch, and holds no secret. It is for restores alone: never run\n" +
					"\"litestream replicate\" with it.\n\n" +
					"Example:\n  holdfast replica config > stock.yml\n  litestream restore -config stock.yml -o copy.db /var/lib/holdfast/holdfast.db",
				Flags:  rootFlags(),
				Action: withRoot(0, 0, replicaConfig),
			},
			{
				Name:        "ls",
				Usage:       "list the epochs in the replica",
				Description: "TXIDs are what restore --txid takes, of the epoch that --epoch names.\n\nExamples:\n  holdfast replica ls\n  holdfast replica ls --json",
				Flags:       rootFlags(),
				Action:      withRoot(0, 0, replicaLS),
			},
			{
				Name:  "verify",
				Usage: "restore the replica and check every page of it",
				Description: "Restores into a temporary directory (TMPDIR says where), checks the whole database, and\n" +
					"deletes it again. A node that serves is not disturbed.\n\n" +
					"Examples:\n  holdfast replica verify\n  TMPDIR=/mnt/large holdfast replica verify --json",
				Flags:  rootFlags(),
				Action: withRoot(0, 0, replicaVerify),
			},
			gcCommand(),
		},
	}
}

// readyEpoch returns the epoch that is the truth.
func readyEpoch(ctx context.Context, c *cli.Context, cfg replicate.Config) (int64, error) {
	lock, err := replicate.ReadLock(ctx, cfg.Replica, commandLogger(c))
	if err != nil {
		return 0, err
	}
	if lock.Ready == 0 {
		return 0, fmt.Errorf("%s has never held a database; its node has to start first", cfg.ReplicaURL())
	}
	return lock.Ready, nil
}

func replicaURL(c *cli.Context, cfg replicate.Config) error {
	epoch, err := readyEpoch(c.Context, c, cfg)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			URL   string `json:"url"`
			Root  string `json:"root"`
			Epoch int64  `json:"epoch"`
		}{cfg.PrefixURL(epoch), cfg.ReplicaURL(), epoch})
	}
	fmt.Fprintln(c.App.Writer, cfg.PrefixURL(epoch))
	return nil
}

func replicaConfig(c *cli.Context, cfg replicate.Config) error {
	epoch, err := readyEpoch(c.Context, c, cfg)
	if err != nil {
		return err
	}
	text := string(cfg.StockFor(node.DatabasePath(c.String("data")), epoch))
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			Epoch  int64  `json:"epoch"`
			Config string `json:"config"`
		}{epoch, text})
	}
	fmt.Fprint(c.App.Writer, text)
	return nil
}

// epochLine is an epoch of replica ls.
type epochLine struct {
	Epoch            int64  `json:"epoch"`
	Ready            bool   `json:"ready"` // it is the truth
	Parent           int64  `json:"parent"`
	ParentTXID       string `json:"parent_txid"`
	MinTXID          string `json:"min_txid"`
	MaxTXID          string `json:"max_txid"`
	Files            int    `json:"files"`
	Bytes            int64  `json:"bytes"`
	ReadyAtMS        *int64 `json:"ready_at_ms"` // null: it never was
	LastWriteAtMS    *int64 `json:"last_write_at_ms"`
	LastSnapshotAtMS *int64 `json:"last_snapshot_at_ms"`
}

func replicaLS(c *cli.Context, cfg replicate.Config) error {
	lock, epochs, err := replicate.List(c.Context, cfg.Replica, commandLogger(c))
	if err != nil {
		return err
	}
	lines := make([]epochLine, 0, len(epochs))
	for _, e := range epochs {
		lines = append(lines, epochLine{
			Epoch: e.Epoch, Ready: e.Ready, Parent: e.Parent, ParentTXID: txidText(e.ParentTXID),
			MinTXID: txidText(e.MinTXID), MaxTXID: txidText(e.MaxTXID), Files: e.Files, Bytes: e.Bytes,
			ReadyAtMS: optionalMS(e.ReadyAt), LastWriteAtMS: optionalMS(e.LastWrite), LastSnapshotAtMS: optionalMS(e.LastSnapshot),
		})
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			URL    string      `json:"url"`
			Node   string      `json:"node"` // which holds it, or held it last
			Closed bool        `json:"closed"`
			Epochs []epochLine `json:"epochs"`
		}{cfg.ReplicaURL(), lock.Node, lock.Closed, lines})
	}
	fmt.Fprintln(c.App.Writer, cfg.ReplicaURL()+", "+holderText(lock))
	if len(lines) == 0 {
		return nil
	}
	now := time.Now()
	rows := [][]string{{"EPOCH", "READY", "FROM", "TXIDS", "FILES", "SIZE", "READY SINCE", "LAST WRITE"}}
	for _, l := range lines {
		rows = append(rows, epochRow(&l, now))
	}
	return table(c.App.Writer, rows)
}

func holderText(lock replicate.Lock) string {
	switch {
	case lock.Session == "":
		return "begun and not used yet"
	case lock.Closed:
		return fmt.Sprintf("closed by node %q", lock.Node)
	}
	return fmt.Sprintf("held by node %q at %s", lock.Node, lock.URL)
}

func epochRow(l *epochLine, now time.Time) []string {
	ready, from, txids := "-", "-", "-"
	if l.Ready {
		ready = "now"
	}
	if l.Parent > 0 {
		from = fmt.Sprintf("%d at %s", l.Parent, l.ParentTXID)
	}
	if l.MaxTXID != txidText(0) {
		txids = l.MinTXID + "-" + l.MaxTXID
	}
	return []string{
		number(l.Epoch), ready, from, txids, number(int64(l.Files)), sizeText(l.Bytes),
		agoOr(l.ReadyAtMS, now, "never"), agoOr(l.LastWriteAtMS, now, "-"),
	}
}

func replicaVerify(c *cli.Context, cfg replicate.Config) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-verify-")
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	got, err := bringBack(c, replicate.RestoreOptions{
		Replica: cfg.Replica, Output: filepath.Join(dir, "verify.db"), Full: true, Logger: commandLogger(c),
	})
	got.Output = "" // it is gone in a moment
	if c.Bool("json") && err == nil {
		return printJSON(c.App.Writer, struct {
			OK  bool   `json:"ok"`
			URL string `json:"url"`
			restored
		}{true, cfg.ReplicaURL(), got})
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	fmt.Fprintf(c.App.Writer, "ok: epoch %d, TXID %s, seq %d; read %s, a database of %s, every page of it is whole\n",
		got.Epoch, got.TXID, got.Seq, sizeText(got.ReadBytes), sizeText(got.Bytes))
	return nil
}
