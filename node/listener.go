package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// holdBack is how long a node may let connections wait at a socket that was
// open before it.
const holdBack = 5 * time.Second

// listeners are the addresses that a node has taken, but for that of SQL.
type listeners struct {
	api     net.Listener
	metrics net.Listener // nil: the metrics have none of their own
	conns   *connLimit   // that those of the API and of SQL share
}

func openListeners(ctx context.Context, cfg Config) (on listeners, err error) {
	if on.api, err = openListener(ctx, cfg); err != nil {
		return on, err
	}
	if on.metrics, err = listenMetrics(ctx, cfg); err != nil {
		return on, errors.Join(err, on.api.Close())
	}
	on.conns = newConnLimit(openFiles(), cfg.Logger)
	on.api = on.conns.on(on.api)
	return on, nil
}

// close gives them back when nobody serves on them.
func (l listeners) close() error {
	if l.metrics == nil {
		return l.api.Close()
	}
	return errors.Join(l.api.Close(), l.metrics.Close())
}

// openListener returns the socket to serve on: the one that was handed over,
// or one of its own.
func openListener(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.Listener == nil {
		return listen(ctx, cfg.Listen, listenFlag)
	}
	if _, ok := cfg.Listener.Addr().(*net.TCPAddr); !ok {
		return nil, fmt.Errorf("the socket that was handed over is %s, not a TCP one; name host:port in ListenStream=", cfg.Listener.Addr())
	}
	return cfg.Listener, nil
}

// awaitBoot lets those wait who connect to a socket that was held while no node
// ran: a restart is over in a moment, and they would be turned away. A boot
// that takes longer is told to them as always.
func (n *node) awaitBoot(ctx context.Context) {
	if n.cfg.Listener == nil {
		return
	}
	timer := time.NewTimer(holdBack)
	defer timer.Stop()
	select {
	case <-n.api.beacon.up:
	case <-timer.C:
	case <-ctx.Done():
	}
}
