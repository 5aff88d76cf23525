package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapeTimeout bounds what a scrape asks of the database.
const scrapeTimeout = 5 * time.Second

// newMetrics returns the handler of /metrics: what this node says of itself
// when it is asked, and what libraries of the process count.
func newMetrics(a *API) http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(newCollector(a)) // of names that are its own: it cannot fail
	return promhttp.HandlerFor(prometheus.Gatherers{own, prometheus.DefaultGatherer}, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// showMetrics is GET /metrics.
func (a *API) showMetrics(w http.ResponseWriter, r *http.Request) error {
	a.metrics.ServeHTTP(w, r)
	return nil
}

// collector reads the metrics of a node at scrape. Each of them is described
// once, by metric.
type collector struct {
	api *API

	build, jobs, oldest           *prometheus.Desc
	lag, seq, replicatedSeq, txid *prometheus.Desc
	lastSync, failing, requests   *prometheus.Desc
	dbBytes, walBytes             *prometheus.Desc
	held, paused                  *prometheus.Desc
	done                          jobMetrics
}

func newCollector(a *API) *collector {
	metric := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
	}
	return &collector{
		api:           a,
		build:         metric("build_info", "1, with what the program was built from.", "version", "commit", "go_version", "sqlite_version"),
		jobs:          metric("queue_jobs", "Jobs by queue and state; dead leaves archived ones out.", "queue", "state"),
		oldest:        metric("queue_oldest_ready_seconds", "How long the oldest job that could run has been waiting; 0: none is.", "queue"),
		lag:           metric("replication_lag_seconds", "Age of the oldest commit that is not in the replica; 0: all are. On an edge how old its copy may be."),
		seq:           metric("replication_seq", "The last commit."),
		replicatedSeq: metric("replication_replicated_seq", "The commit up to which all are in the replica."),
		txid:          metric("replication_txid", "The transaction id of the last upload, in its epoch."),
		lastSync:      metric("replication_last_sync_timestamp_seconds", "When the last upload was complete; 0: none was yet."),
		failing:       metric("replication_failing", "1 while the last upload failed or the bucket was not reached yet."),
		requests:      metric("replication_requests_total", "Requests to the bucket by what providers have prices for.", "op"),
		dbBytes:       metric("db_bytes", "Size of the database file."),
		walBytes:      metric("wal_bytes", "Size of the database's WAL."),
		held:          metric("lease_held", "1 while this node may act as the primary; 0: it is a standby, starts, or lost its place."),
		paused:        metric("queue_paused", "1 while the queue is paused.", "queue"),
		done:          newJobMetrics(metric),
	}
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range append(c.done.all(), c.build, c.jobs, c.oldest, c.paused, c.lag, c.seq, c.replicatedSeq, c.txid, c.lastSync, c.failing,
		c.requests, c.dbBytes, c.walBytes, c.held) {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. Before the node is open there is
// only build_info and lease_held.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	v := c.api.version
	c.gauge(ch, c.build, 1, v.Version, v.Commit, v.Go, v.SQLite)
	store, held := c.api.store.Load(), 0.0
	if store != nil && !c.api.lost() {
		held = 1
	}
	c.gauge(ch, c.held, held)
	if store != nil {
		c.queues(ch, *store)
		if m, ok := (*store).(Metered); ok {
			c.done.collect(ch, m)
		}
		db, wal := c.api.sizes()
		c.gauge(ch, c.dbBytes, float64(db))
		c.gauge(ch, c.walBytes, float64(wal))
	}
	c.replication(ch)
}

func (c *collector) gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (c *collector) queues(ch chan<- prometheus.Metric, s Store) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	now := time.Now()
	infos, err := s.Queues(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.jobs, errors.Join(errors.New("read the queues"), err))
		return
	}
	for i := range infos {
		q := queueOf(&infos[i])
		for _, state := range []struct {
			name string
			jobs int64
		}{
			{"scheduled", q.Counts.Scheduled},
			{"queued", q.Counts.Queued},
			{"running", q.Counts.Running},
			{"done", q.Counts.Done},
			{"dead", q.Counts.Dead},
			{"cancelled", q.Counts.Cancelled},
		} {
			c.gauge(ch, c.jobs, float64(state.jobs), q.Name, state.name)
		}
		waiting := 0.0
		if at := infos[i].OldestAt; !at.IsZero() {
			waiting = max(now.Sub(at).Seconds(), 0)
		}
		c.gauge(ch, c.oldest, waiting, q.Name)
		paused := 0.0
		if q.Paused {
			paused = 1
		}
		c.gauge(ch, c.paused, paused, q.Name)
	}
}

func (c *collector) replication(ch chan<- prometheus.Metric) {
	st, ok := c.api.status()
	if !ok {
		return
	}
	c.gauge(ch, c.lag, st.Lag(time.Now()).Seconds())
	c.gauge(ch, c.seq, float64(st.Seq))
	c.gauge(ch, c.replicatedSeq, float64(st.ReplicatedSeq))
	c.gauge(ch, c.txid, float64(st.TXID))
	last, failing := 0.0, 0.0
	if !st.LastSyncAt.IsZero() {
		last = float64(st.LastSyncAt.UnixMilli()) / 1000
	}
	if st.Offline || st.LastError != "" {
		failing = 1
	}
	c.gauge(ch, c.lastSync, last)
	c.gauge(ch, c.failing, failing)
	for op, n := range map[string]int64{"put": st.Requests.Put, "get": st.Requests.Get, "list": st.Requests.List, "delete": st.Requests.Delete} {
		ch <- prometheus.MustNewConstMetric(c.requests, prometheus.CounterValue, float64(n), op)
	}
}
