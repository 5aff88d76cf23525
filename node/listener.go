package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
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

const listenFlag = "--listen, HOLDFAST_LISTEN"

// listen listens on addr, which the flag sets.
func listen(ctx context.Context, addr, flag string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another process uses this port; stop it or choose another address (%s): %w", addr, flag, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	// A resolver can be told that localhost is elsewhere.
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && loopbackOnly(addr) && !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen on %s: it resolves to %s, which is beyond loopback", addr, tcp.IP), listener.Close())
	}
	return listener, nil
}

// urlOf is the URL for the clients of this machine. One that listens on every
// address is reached by loopback.
func urlOf(addr net.Addr, secure bool) string {
	scheme, host := "http", addr.String()
	if secure {
		scheme = "https"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return scheme + "://" + host
}

func serveOn(server *http.Server, listener net.Listener, cert *certificate) error {
	if cert == nil {
		return server.Serve(listener)
	}
	server.TLSConfig = cert.tlsConfig()
	return server.ServeTLS(listener, "", "")
}

// loopbackOnly reports whether an address to listen on is reached by this
// machine alone.
func loopbackOnly(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return listen == "" || err == nil && isLoopback(host)
}
