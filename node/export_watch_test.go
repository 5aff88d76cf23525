package node

import (
	"context"
	"log/slog"
	"time"

	"holdfast/queue"
)

// AlertTeller tells a webhook what a test lets it see.
type AlertTeller struct{ a *alerts }

// NewAlertTeller returns one that tries again after a moment.
func NewAlertTeller(conf Alerts, log *slog.Logger) *AlertTeller {
	a := newAlerts(Config{Alerts: conf, Logger: log, Node: "n1"}, "http://n1.example")
	a.backoff = time.Millisecond
	return &AlertTeller{a}
}

// Run tells until ctx ends.
func (t *AlertTeller) Run(ctx context.Context) { t.a.run(ctx) }

// See shows it a node with queues, or one without a store for none.
func (t *AlertTeller) See(exposed time.Duration, queues ...queue.Info) {
	t.a.see(&glance{at: time.Now(), queues: queues, exposed: exposed, hasStore: len(queues) > 0})
}

// Seen is what a node saw of itself at a time.
type Seen struct {
	Queue queue.Info
	Meter queue.Meter
	Load  queue.Load
	WAL   int64
}

// Outgrown are the texts of the signals after two glances.
func Outgrown(span time.Duration, first, last Seen) (texts []string) {
	var w watcher
	now := time.Now()
	for _, g := range []struct {
		at time.Time
		s  Seen
	}{{now.Add(-span), first}, {now, last}} {
		w.add(glance{at: g.at, queues: []queue.Info{g.s.Queue}, meters: map[string]queue.Meter{g.s.Queue.Name: g.s.Meter}, load: g.s.Load, wal: g.s.WAL, hasStore: true})
	}
	for _, s := range w.outgrown(func(string) bool { return true }) {
		texts = append(texts, s.Text)
	}
	return texts
}
