package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// metricsGrace is how long a scrape under way may take when the node stops.
const metricsGrace = 2 * time.Second

// listenMetrics opens the address of the metrics, or returns nil when there is
// none.
func listenMetrics(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.MetricsListen == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	l, err := listen(ctx, cfg.MetricsListen, "--metrics-listen, HOLDFAST_METRICS_LISTEN")
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return l, nil
}

// serveMetrics serves /metrics and nothing else, without a token, for scrapers
// that have none, until ended is closed. Who reaches the address learns the names
// of the queues and how much is in them.
func (n *node) serveMetrics(l net.Listener, ended <-chan struct{}) error {
	if l == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if err := guard(n.api.csrf, r, !loopbackOnly(n.cfg.MetricsListen)); err != nil {
			n.api.fail(w, r, err)
			return
		}
		n.api.metrics.ServeHTTP(w, r)
	})
	server := newServer(mux, n.cfg)
	limit := &connLimit{free: make(chan struct{}, metricsConns), log: n.cfg.Logger}
	var g errgroup.Group
	g.Go(func() error {
		<-ended
		ctx, cancel := context.WithTimeout(context.Background(), metricsGrace)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			return server.Close()
		}
		return nil
	})
	n.cfg.Logger.Info("metrics", "address", l.Addr().String())
	g.Go(func() error {
		if err := server.Serve(limit.on(l)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics: %w", err)
		}
		return nil
	})
	return g.Wait()
}
