package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"holdfast/node"
)

func edgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "edge",
		Usage: "serve reads from a copy that follows the replica",
		Description: "Follows the database in the replica that --config names, which it needs rights to read\n" +
			"alone, and answers what reads: status, queues, jobs, events, and SQL with --sql-listen. Each\n" +
			"answer says how old it may be. What changes something is refused, and says where the primary is.\n\n" +
			"With an access token of the scope view in HOLDFAST_TOKEN it learns from the primary's events\n" +
			"what was uploaded; without, it looks at the bucket each second. Its own clients show the\n" +
			"tokens that were made at the primary. The file of --config may be the primary's own.\n\n" +
			"Examples:\n" +
			"  holdfast edge --config litestream.yml --data /var/lib/holdfast-edge\n" +
			"  HOLDFAST_TOKEN=hf_… holdfast edge --config litestream.yml --listen 0.0.0.0:7780 --sql-listen 0.0.0.0:7781",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "data", EnvVars: []string{"HOLDFAST_DATA"}, Value: "./data", Usage: "directory of the copies, in its folder edge"},
			listenFlag(), configFlag(), nodeFlag(), userFlag(), metricsListenFlag(), sqlListenFlag(), sqlOriginFlag(),
			&cli.StringFlag{
				Name: "primary-url", EnvVars: []string{"HOLDFAST_PRIMARY_URL"}, DefaultText: "as lock.json has it",
				Usage: "`URL` under which the primary is reached from here",
			},
			tokenFlag(), caFlag(),
		}, serverSecurityFlags()...),
		Action: runEdge,
	}
}

func runEdge(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	cfg, err := readConfig(c, false)
	if err != nil {
		return err
	}
	admin, err := adminToken(c)
	if err != nil {
		return err
	}
	roots, err := trust(c)
	if err != nil {
		return err
	}
	data := absolute(c.String("data"))
	if err := becomeUser(c.String("user"), data); err != nil {
		return err
	}
	info := buildVersion()
	run := node.EdgeConfig{
		Config: node.Config{
			Data:          data,
			Listen:        c.String("listen"),
			Logger:        commandLogger(c),
			Version:       info.Version,
			Commit:        info.Commit,
			Replication:   cfg,
			MetricsListen: c.String("metrics-listen"),
			Node:          c.String("node"),
			AdminToken:    admin,
			SQLListen:     c.String("sql-listen"),
			SQLOrigins:    c.StringSlice("sql-origin"),
			TLSCert:       c.String("tls-cert"),
			TLSKey:        c.String("tls-key"),
			OnReady:       func(url string) { helloEdge(c.App.Writer, url, cfg.ReplicaURL(), info.Version) },
		},
		Primary: c.String("primary-url"),
		Token:   strings.TrimSpace(c.String("token")),
		TLS:     roots,
	}
	if err := supervised(&run.Config); err != nil {
		return err
	}
	return node.RunEdge(c.Context, run)
}

// helloEdge tells a person who started an edge where it is.
func helloEdge(w io.Writer, url, replica, version string) {
	fmt.Fprintf(w, "Holdfast %s serves reads at %s\nReplica: %s\n\nholdfast status --from %s\n", version, url, replica, url)
}
