package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/replicate"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check the data, the configuration and the replica, and say what to do",
		Description: "Of a node that does not run: whether the directory can be written to and has room, the\n" +
			"database is whole, and every counter is what the rows say, on a copy beside it. Of one that\n" +
			"runs, which it asks at --url: whether it is ready, and how its replication stands. Of both:\n" +
			"the configuration, whether the replica can be reached, and of a bucket whether the key has its\n" +
			"rights, conditional writes work and the clocks agree, for which it writes scratch objects and\n" +
			"deletes them. It changes nothing else, and exits with 1 when something is not right.\n\n" +
			"Examples:\n  holdfast doctor\n  holdfast doctor --data /var/lib/holdfast --config litestream.yml --json",
		Flags: rootFlags(append(serverSecurityFlags(), listenFlag(), urlFlag(), tokenFlag(), caFlag())...),
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 0, 0); err != nil {
				return err
			}
			checks, err := examine(c)
			if err != nil {
				return err
			}
			return tellChecks(c, checks)
		},
	}
}

// bucketTimeout is how long the replica may take to answer.
const bucketTimeout = 20 * time.Second

func examine(c *cli.Context) ([]node.Check, error) {
	checks, err := node.Examine(c.Context, c.String("data"))
	switch {
	case errors.Is(err, node.ErrLocked):
		checks = append(checks, node.Check{Name: "data directory", OK: true, Found: c.String("data") + " is in use: its node runs, and is asked instead"})
		// The action of withClient gets the client that the flags name.
		if err := withClient(0, 0, func(c *cli.Context, api *client.Client) error {
			checks = append(checks, askNode(c.Context, api)...)
			return nil
		})(c); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	checks = append(checks, lookAtSecurity(c, errors.Is(err, node.ErrLocked), time.Now())...)
	cfg, err := loadConfig(c)
	if err != nil {
		return append(checks, node.Check{Name: "config", Found: configName(c), Fix: strings.ReplaceAll(err.Error(), "\n", "; ")}), nil
	}
	checks = append(checks, node.Check{Name: "config", OK: true, Found: configName(c)})
	checks = append(checks, lookAtReplica(c, cfg))
	return append(checks, tryBucket(c, cfg)...), nil
}

func configName(c *cli.Context) string {
	if path := c.String("config"); path != "" {
		return path
	}
	return "the defaults: the replica is a folder of the data directory"
}

// askNode looks at a node that runs, from outside.
func askNode(ctx context.Context, api *client.Client) []node.Check {
	ready := node.Check{Name: "node", Found: api.URL()}
	said, err := api.Ready(ctx)
	switch {
	case err != nil:
		ready.Found, ready.Fix = err.Error(), "name the address that the node listens on with --url"
		return []node.Check{ready}
	case !said.Ready:
		ready.Found, ready.Fix = "it is not ready", strings.Join(said.Reasons, "; ")
		return []node.Check{ready}
	}
	ready.OK, ready.Found = true, api.URL()+" is ready"
	replication := node.Check{Name: "replication", OK: true}
	status, err := api.Replication(ctx)
	switch {
	case errors.Is(err, client.ErrNotFound):
		replication.Found = "it keeps no replica"
	case err != nil:
		replication.OK, replication.Found, replication.Fix = false, err.Error(), "see the node's log"
	case status.LastError != nil:
		replication.OK, replication.Found, replication.Fix = false, status.URL, "the last upload failed: "+*status.LastError
	default:
		replication.Found = fmt.Sprintf("%s, lag %s", status.URL, spanMS(status.LagMS))
	}
	return []node.Check{ready, replication}
}

func lookAtReplica(c *cli.Context, cfg replicate.Config) node.Check {
	check := node.Check{Name: "replica", Found: cfg.ReplicaURL()}
	ctx, cancel := context.WithTimeout(c.Context, bucketTimeout)
	defer cancel()
	lock, err := replicate.ReadLock(ctx, cfg.Replica, commandLogger(c))
	switch {
	case errors.Is(err, replicate.ErrNoLock) && node.Embedded(c.String("data"), cfg.Replica):
		check.OK, check.Found = true, cfg.ReplicaURL()+" begins with the first start"
	case errors.Is(err, replicate.ErrNoLock):
		check.Fix = "there is no lock.json: begin the replica with holdfast init, or correct its name if it has begun"
	case err != nil:
		check.Fix = "see to it that it can be reached and read: " + err.Error()
	case lock.Session == "" || lock.Closed:
		check.OK, check.Found = true, fmt.Sprintf("%s, epoch %d, held by no node", cfg.ReplicaURL(), lock.Epoch)
	default:
		check.OK, check.Found = true, fmt.Sprintf("%s, epoch %d, held by node %q (%s)", cfg.ReplicaURL(), lock.Epoch, lock.Node, lock.URL)
	}
	return check
}

func tellChecks(c *cli.Context, checks []node.Check) error {
	var wrong []string
	for _, check := range checks {
		if !check.OK {
			wrong = append(wrong, check.Name)
		}
	}
	var err error
	if len(wrong) > 0 {
		err = fmt.Errorf("doctor: not right: %s", strings.Join(wrong, ", "))
	}
	if c.Bool("json") {
		return printed(c.App.Writer, struct {
			Checks []node.Check `json:"checks"`
		}{checks}, err)
	}
	rows := [][]string{{"CHECK", "", "FOUND"}}
	for _, check := range checks {
		mark, found := "ok", check.Found
		if !check.OK {
			mark, found = "FAIL", found+": "+check.Fix
		}
		rows = append(rows, []string{check.Name, mark, oneLine(found, 2000)})
	}
	return errors.Join(table(c.App.Writer, rows), err)
}
