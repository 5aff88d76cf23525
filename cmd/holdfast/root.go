package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

// The commands that change who writes to the root of a replica, and what.

// rootFlags are those of a command on a root, after its own.
func rootFlags(own ...cli.Flag) []cli.Flag {
	return append(own, dataFlag(), configFlag(), jsonFlag())
}

// withRoot makes an action of do, which works on the replica that the flags
// name. The command has least to most arguments.
func withRoot(least, most int, do func(c *cli.Context, cfg replicate.Config) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := wantArgs(c, least, most); err != nil {
			return err
		}
		cfg, err := loadConfig(c)
		if err != nil {
			return err
		}
		return do(c, cfg)
	}
}

func initCommand() *cli.Command {
	return &cli.Command{
		Name:  "init",
		Usage: "begin the replica in a bucket, or in a folder elsewhere",
		Description: "Writes lock.json, once. A node does not do that by itself: a bucket without lock.json\n" +
			"may be a misspelled one, or one that lost its data. Needs the bucket alone, no data\n" +
			"directory. The default replica, a folder of the data directory, needs no init.\n\n" +
			"Examples:\n" +
			"  holdfast init --config litestream.yml\n" +
			"  fly console --command 'holdfast init'",
		Flags:  rootFlags(),
		Action: withRoot(0, 0, initRoot),
	}
}

func initRoot(c *cli.Context, cfg replicate.Config) error {
	if node.Embedded(c.String("data"), cfg.Replica) {
		return usagef("init: the replica %s begins by itself when the node starts; to begin one elsewhere, name it with --config", cfg.ReplicaURL())
	}
	lock, err := replicate.Init(c.Context, cfg.Replica, commandLogger(c))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			URL     string `json:"url"`
			Lineage string `json:"lineage"`
		}{cfg.ReplicaURL(), lock.Lineage})
	}
	fmt.Fprintf(c.App.Writer, "%s is begun\nstart its node: holdfast serve%s\n", cfg.ReplicaURL(), configHint(c))
	return nil
}

// configHint is the --config flag to write in an example of another command.
func configHint(c *cli.Context) string {
	if path := c.String("config"); path != "" {
		return " --config " + path
	}
	return ""
}

func adoptCommand() *cli.Command {
	return &cli.Command{
		Name:      "adopt",
		Usage:     "make a database file the node's own",
		ArgsUsage: "FILE",
		Description: "Copies FILE, such as one that was restored to an earlier time, into the data directory.\n" +
			"The next start makes it the truth: it becomes the base of a new epoch in the replica. What\n" +
			"is in the data directory is set aside, and older epochs stay in the replica until their\n" +
			"retention is over. The node must not run.\n\n" +
			"Examples:\n" +
			"  holdfast restore --time 2026-11-30T08:00:00Z -o before.db\n" +
			"  holdfast adopt before.db",
		Flags:  rootFlags(nodeFlag()),
		Action: withRoot(1, 1, adopt),
	}
}

func adopt(c *cli.Context, cfg replicate.Config) error {
	file, data := c.Args().First(), absolute(c.String("data"))
	aside, err := node.Adopt(c.Context, node.Config{
		Data: data, Replication: cfg, Node: c.String("node"), Logger: commandLogger(c),
	}, file)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			Database string  `json:"database"`
			Aside    *string `json:"aside"` // where the files that were there are; null: there were none
		}{node.DatabasePath(data), optional(aside)})
	}
	fmt.Fprintf(c.App.Writer, "%s is now %s\n", file, node.DatabasePath(data))
	if aside != "" {
		fmt.Fprintf(c.App.Writer, "the files that were there are in %s; delete them when you do not need them any more\n", aside)
	}
	fmt.Fprintf(c.App.Writer, "start the node: holdfast serve --data %s%s\nit uploads the database to %s as a new epoch before it serves\n",
		c.String("data"), configHint(c), cfg.ReplicaURL())
	return nil
}

func takeoverCommand() *cli.Command {
	return &cli.Command{
		Name:  "takeover",
		Usage: "take the replica from a node that is lost",
		Description: "Gives the replica up in the name of the node that holds it, so that a node of another\n" +
			"name may start with it. A node that stopped cleanly, or that comes back under its own name,\n" +
			"needs no takeover. If the holder lives after all, it finds out within seconds of its next\n" +
			"commit and stops; what it acknowledged and did not upload until then is lost.\n\n" +
			"Examples:\n" +
			"  holdfast takeover --config litestream.yml            # says who holds it\n" +
			"  holdfast takeover --config litestream.yml --force",
		Flags:  rootFlags(&cli.BoolFlag{Name: "force", Usage: "do it"}),
		Action: withRoot(0, 0, takeover),
	}
}

func takeover(c *cli.Context, cfg replicate.Config) error {
	lock, err := replicate.ReadLock(c.Context, cfg.Replica, commandLogger(c))
	if err != nil {
		return err
	}
	held := lock.Session != "" && !lock.Closed
	if held && !c.Bool("force") {
		return usagef("takeover: %s is held by node %q (%s, epoch %d); stop that node if it lives, and the replica is free. "+
			"If it is lost, take the replica with --force: what it acknowledged and did not upload is then lost too",
			cfg.ReplicaURL(), lock.Node, lock.URL, lock.Epoch)
	}
	if held {
		if lock, err = replicate.TakeOver(c.Context, cfg.Replica, commandLogger(c)); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, struct {
			URL   string `json:"url"`
			Taken bool   `json:"taken"` // false: it was free
			Node  string `json:"node"`  // which held it last
			Epoch int64  `json:"epoch"`
		}{cfg.ReplicaURL(), held, lock.Node, lock.Epoch})
	}
	if !held {
		fmt.Fprintf(c.App.Writer, "%s is held by no node; start yours: holdfast serve%s\n", cfg.ReplicaURL(), configHint(c))
		return nil
	}
	fmt.Fprintf(c.App.Writer, "%s is taken from node %q (%s, epoch %d)\nstart the node that follows it: holdfast serve%s\n",
		cfg.ReplicaURL(), lock.Node, lock.URL, lock.Epoch, configHint(c))
	return nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func optionalMS(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}
