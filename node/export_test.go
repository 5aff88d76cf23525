package node

import (
	"context"

	"holdfast/queue"
)

// Engine is what WithOpen puts in the queue's place.
type Engine = engine

// WithOpen returns cfg with another way to open the queue.
func WithOpen(cfg Config, open func(ctx context.Context, path string, opts queue.Options) (Engine, error)) Config {
	cfg.open = open
	return cfg
}
