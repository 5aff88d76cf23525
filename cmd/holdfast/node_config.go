package main

import (
	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/systemd"
	"holdfast/replicate"
)

// nodeConfig reads the flags and files that serve and edge have in common, and
// then becomes the user whom --user names, who need not be able to read them.
func nodeConfig(c *cli.Context, replication replicate.Config) (node.Config, error) {
	admin, err := adminToken(c)
	if err != nil {
		return node.Config{}, err
	}
	data := absolute(c.String("data"))
	if err := becomeUser(c.String("user"), data); err != nil {
		return node.Config{}, err
	}
	log, err := serverLogger(c)
	if err != nil {
		return node.Config{}, err
	}
	info := buildVersion()
	cfg := node.Config{
		Data:          data,
		Listen:        c.String("listen"),
		Logger:        log,
		Version:       info.Version,
		Commit:        info.Commit,
		Replication:   replication,
		MetricsListen: c.String("metrics-listen"),
		Node:          c.String("node"),
		AdminToken:    admin,
		SQLListen:     c.String("sql-listen"),
		SQLOrigins:    c.StringSlice("sql-origin"),
		TLSCert:       c.String("tls-cert"),
		TLSKey:        c.String("tls-key"),
	}
	return cfg, supervised(&cfg)
}

// supervised lets the node talk to what started it, if that speaks systemd's
// protocols.
func supervised(cfg *node.Config) error {
	listener, err := systemd.Listener()
	if err != nil {
		return err
	}
	cfg.Listener = listener
	notifier, err := systemd.Notify(cfg.Logger)
	if err != nil {
		return err
	}
	if notifier != nil {
		cfg.Supervisor = notifier
	}
	return nil
}
