package node

import (
	"context"
	"net"

	"holdfast/queue"
	"holdfast/replicate"
)

// Engine is what WithOpen puts in the queue's place.
type Engine = engine

// Primary is what WithAcquire puts in the place of the hold on a root.
type Primary = primary

// WithOpen returns cfg with another way to open the queue, and no replica.
func WithOpen(cfg Config, open func(ctx context.Context, path string, opts queue.Options) (Engine, error)) Config {
	cfg.open = open
	return WithAcquire(cfg, func(context.Context, replicate.Options) (Primary, error) { return noReplica{}, nil })
}

// WithAcquire returns cfg with another way to take the root.
func WithAcquire(cfg Config, acquire func(ctx context.Context, opts replicate.Options) (Primary, error)) Config {
	cfg.acquire = acquire
	return cfg
}

// FlyURL is what a machine of Fly.io with such an environment calls itself.
func FlyURL(getenv func(string) string, bound net.Addr) string {
	return thisFlyMachine(getenv).url(bound)
}
