package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"holdfast/node"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run a node",
		Description: "Serves the API until SIGINT or SIGTERM, then stops cleanly and exits with 0.\n" +
			"The directory is made when it is missing; one node at a time uses it.\n\n" +
			"Each commit is copied to the replica within a second: to a folder of the data directory,\n" +
			"or to the bucket that --config names, from which a node whose disk is lost comes back by\n" +
			"itself. A bucket is begun once, by holdfast init.\n\n" +
			"An address that other machines reach needs an access token: set HOLDFAST_ADMIN_TOKEN, and\n" +
			"make tokens for others with holdfast token create. Then every request needs one.\n\n" +
			"Examples:\n" +
			"  holdfast serve\n" +
			"  holdfast serve --data /var/lib/holdfast --listen 127.0.0.1:7781\n" +
			"  holdfast serve --data /var/lib/holdfast --config litestream.yml\n" +
			"  HOLDFAST_ADMIN_TOKEN=$(cat secret) holdfast serve --listen 0.0.0.0:7780 --tls-cert cert.pem --tls-key key.pem\n\n" +
			"With --sql-listen, libSQL's clients read queues and jobs by SQL there, and change nothing:\n" +
			"  holdfast serve --sql-listen 127.0.0.1:7781\n\n" +
			"With --alert-webhook, a URL is told when a queue has too many dead jobs or one that waits too\n" +
			"long, or commits are on this disk only, and again when that is over.\n\n" +
			"Under systemd it says when it is ready, and serves on the socket that a unit holds for it.",
		Flags:  serveFlags(),
		Action: serve,
	}
}

// serveFlags are the settings of a node that no file holds; config show has
// those that are not hidden.
func serveFlags() []cli.Flag {
	return append([]cli.Flag{
		dataFlag(), listenFlag(), configFlag(), nodeFlag(), userFlag(), logLevelFlag(), metricsListenFlag(), sqlListenFlag(), sqlOriginFlag(),
		&cli.BoolFlag{Name: "no-replica", Hidden: true, Usage: "keep no copy, for benchmarks"},
		&cli.BoolFlag{Name: "memory", Hidden: true, Usage: "keep nothing, for benchmarks"},
		&cli.IntFlag{Name: "max-round", Hidden: true, Usage: "operations that share a commit; 0: the default"},
	}, append(alertFlags(), serverSecurityFlags()...)...)
}

func serve(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	replication, err := loadConfig(c)
	if err != nil {
		return err
	}
	if err := node.NeverPrimary(os.Getenv); err != nil {
		return err
	}
	run, err := nodeConfig(c, replication)
	if err != nil {
		return err
	}
	run.MaxRound, run.NoReplica = c.Int("max-round"), c.Bool("no-replica")
	run.Alerts = alertsOf(c)
	run.OnReady = func(url string) { hello(c.App.Writer, url, &run) }
	if c.Bool("memory") {
		return node.ServeMemory(c.Context, run)
	}
	return node.Run(c.Context, run)
}

// hello tells a person who started a node where it is and what to try first.
func hello(w io.Writer, url string, cfg *node.Config) {
	header := ""
	if cfg.AdminToken != "" || node.BeyondLoopback(cfg.Listen) {
		header = ` -H "Authorization: Bearer $HOLDFAST_TOKEN"`
	}
	fmt.Fprintf(w, `Holdfast %[1]s serves %[2]s
Dashboard: %[2]s/
Data directory: %[3]s
Replica: %[4]s

Enqueue a job, then claim it:
  curl %[2]s/v1/jobs%[5]s -d '{"queue":"mail","payload":{"to":"a@example.com"}}'
  curl %[2]s/v1/claims%[5]s -d '{"queues":["mail"],"worker":"me","wait_ms":1000}'
`, cfg.Version, url, cfg.Data, cfg.Replication.ReplicaURL(), header)
}

// logLevelFlag says how much a node writes.
func logLevelFlag() cli.Flag {
	return &cli.StringFlag{Name: "log-level", EnvVars: []string{"HOLDFAST_LOG_LEVEL"}, Value: "info", Usage: "debug (each request too), info, warn or error"}
}

// serverLogger is commandLogger at the level that the flag names.
func serverLogger(c *cli.Context) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, usagef("--log-level: %q is none of debug, info, warn, error", c.String("log-level"))
	}
	return levelLogger(c.App.ErrWriter, isTerminal(c.App.ErrWriter), level), nil
}

// newLogger logs as text for a person at a terminal, as JSON for a machine.
func newLogger(w io.Writer, terminal bool) *slog.Logger {
	return levelLogger(w, terminal, slog.LevelInfo)
}

func levelLogger(w io.Writer, terminal bool, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if terminal {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
