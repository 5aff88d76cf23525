package main

import (
	"holdfast/node"
	"holdfast/node/systemd"
)

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
