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
			tokenFlag(), caFlag(), logLevelFlag(),
		}, serverSecurityFlags()...),
		Action: runEdge,
	}
}

func runEdge(c *cli.Context) error {
	if err := wantArgs(c, 0, 0); err != nil {
		return err
	}
	replication, err := readConfig(c, false)
	if err != nil {
		return err
	}
	roots, err := trust(c) // before it becomes another user, like the other files
	if err != nil {
		return err
	}
	cfg, err := nodeConfig(c, replication)
	if err != nil {
		return err
	}
	cfg.OnReady = func(url string) { helloEdge(c.App.Writer, url, &cfg) }
	return node.RunEdge(c.Context, node.EdgeConfig{
		Config: cfg, Primary: c.String("primary-url"), Token: strings.TrimSpace(c.String("token")), TLS: roots,
	})
}

// helloEdge tells a person who started an edge where it is.
func helloEdge(w io.Writer, url string, cfg *node.Config) {
	fmt.Fprintf(w, "Holdfast %s serves reads at %s\nReplica: %s\n\nholdfast status --from %s\n", cfg.Version, url, cfg.Replication.ReplicaURL(), url)
}
