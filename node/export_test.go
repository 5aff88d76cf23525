package node

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

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

// WithTimeouts returns cfg with other limits on the time that the head of a
// request may take, and all of it.
func WithTimeouts(cfg Config, head, whole time.Duration) Config {
	cfg.headerTimeout, cfg.requestTimeout = head, whole
	return cfg
}

// Needs returns the routes that needs has.
func Needs() []string { return slices.Sorted(maps.Keys(needs)) }

// OpenCertificate returns what a TLS server asks for its certificate, by a
// clock of the test's.
func OpenCertificate(certFile, keyFile string, log *slog.Logger, now func() time.Time) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	c, err := openCertificate(certFile, keyFile, log)
	if err != nil {
		return nil, err
	}
	c.now, c.looked = now, now()
	return c.get, nil
}
