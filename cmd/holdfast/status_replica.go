package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

// statusOfReplica is status from the copy in a replica, which is restored for
// it: no node has to live.
func statusOfReplica(c *cli.Context, from string) (err error) {
	if err := wantArgs(c, 0, 1); err != nil {
		return err
	}
	queue, rest := queueGiven(c)
	if len(rest) > 0 {
		return givenTwice(c, rest[0])
	}
	dir, err := os.MkdirTemp("", "holdfast-status-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := replicaAt(from, filepath.Join(dir, "holdfast.db"))
	if err != nil {
		return err
	}
	log := commandLogger(c)
	p := newProgress(c.App.ErrWriter, log)
	path := filepath.Join(dir, "holdfast.db")
	_, err = replicate.Restore(c.Context, replicate.RestoreOptions{Replica: cfg.Replica, Output: path, Progress: p.tell, Logger: log})
	p.end()
	if err != nil {
		return err
	}
	health, err := node.CopyHealth(c.Context, path, queue)
	if err != nil {
		return err
	}
	if queue != "" && len(health.Queues) == 0 {
		all, err := node.CopyHealth(c.Context, path, "")
		if err != nil {
			return err
		}
		return noQueue(queue, all.Queues)
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, health)
	}
	// What was not uploaded is not there, so the age is that of the last commit.
	return printHealth(c, cfg.ReplicaURL(), health)
}

// replicaAt is the configuration of a replica that is named by its URL alone.
func replicaAt(from, database string) (replicate.Config, error) {
	type replica struct {
		URL string `json:"url"`
	}
	type db struct {
		Path    string  `json:"path"`
		Replica replica `json:"replica"`
	}
	// JSON is YAML too.
	text, err := json.Marshal(map[string][]db{"dbs": {{database, replica{from}}}})
	if err != nil {
		return replicate.Config{}, err
	}
	cfg, err := replicate.ParseConfig("--from", text)
	if err != nil {
		return cfg, usagef("--from: %v", err)
	}
	if cfg, err = cfg.ForDatabase(database); err != nil {
		return cfg, usagef("--from: %v", fmt.Errorf("%s: %w", from, err))
	}
	return cfg, nil
}
