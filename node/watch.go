package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/node/dashboard"
	"holdfast/queue"
)

// How the node watches itself.
const (
	watchEvery = 10 * time.Second
	watchSpan  = 5 * time.Minute // that signals look back
)

// Limits beyond which a node has outgrown what it stands on.
const (
	busyLimit   = 0.7                // of the writer's time: beyond it waits grow quickly
	waitLimit   = time.Minute        // of a claim, on average
	growthLimit = 1000               // jobs more than watchSpan ago, and a fifth more
	walLimit    = int64(256_000_000) // bytes: replication's checkpoints keep it at some MB
)

// glance is how a node was at a time.
type glance struct {
	at       time.Time
	queues   []queue.Info
	meters   map[string]queue.Meter
	load     queue.Load
	wal      int64
	exposed  time.Duration // the age of the oldest commit that is not in the replica
	failing  string        // why, if it is known
	hasStore bool
}

// watcher keeps what the node saw of itself in the last minutes.
type watcher struct {
	mu      sync.Mutex
	glances []glance // oldest first, over watchSpan
}

// glance looks at the node.
func (a *API) glance(ctx context.Context, now time.Time) (glance, error) {
	g := glance{at: now}
	store := a.store.Load()
	if store == nil || a.lost() {
		return g, nil
	}
	var err error
	if g.queues, err = (*store).Queues(ctx); err != nil {
		return g, fmt.Errorf("watch: %w", err)
	}
	g.hasStore = true
	if m, ok := (*store).(Metered); ok {
		g.load, g.meters = m.Load(), map[string]queue.Meter{}
		for _, one := range m.Meters() {
			g.meters[one.Queue] = one
		}
	}
	_, g.wal = a.sizes()
	if st, ok := a.status(); ok {
		g.exposed, g.failing = st.Lag(now), st.LastError
	}
	return g, nil
}

// add keeps a glance. One at a node without a store makes the earlier ones
// worthless.
func (w *watcher) add(g glance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !g.hasStore {
		w.glances = nil
		return
	}
	if n := len(w.glances); n > 0 && g.load.Rounds < w.glances[n-1].load.Rounds { // another store
		w.glances = nil
	}
	w.glances = append(w.glances, g)
	for len(w.glances) > 2 && g.at.Sub(w.glances[1].at) >= watchSpan {
		w.glances = w.glances[1:]
	}
}

// between returns the first and the last glance; false: there are no two, or too
// little time is between them.
func (w *watcher) between() (first, last glance, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.glances) < 2 {
		return glance{}, glance{}, false
	}
	first, last = w.glances[0], w.glances[len(w.glances)-1]
	return first, last, last.at.Sub(first.at) >= time.Minute
}

// outgrown says what is too much for the node, and what to do.
func (w *watcher) outgrown(covers func(string) bool) []dashboard.Signal {
	first, last, ok := w.between()
	if !ok {
		return nil
	}
	var out []dashboard.Signal
	span := last.at.Sub(first.at)
	if share := float64(last.load.Busy-first.load.Busy) / float64(span); share > busyLimit {
		out = append(out, dashboard.Signal{
			Text: fmt.Sprintf("The writer is busy %.0f %% of the time", 100*share),
			Fix:  "This node is near its limit. Enqueue in batches, send acks with the next claim, give it faster CPUs, or move some queues to a node of their own.",
		})
	}
	if last.wal > walLimit {
		out = append(out, dashboard.Signal{
			Text: fmt.Sprintf("The WAL has grown to %d MB", last.wal/1_000_000), Link: "/nodes",
			Fix: "It starts again from its beginning once the replica is up to date and no reader holds on to it. Look whether uploads are held up, and at long SQL queries.",
		})
	}
	return append(out, slowQueues(&first, &last, covers)...)
}

// slowQueues says which queues fall behind, the worst first, a few at most.
func slowQueues(first, last *glance, covers func(string) bool) []dashboard.Signal {
	type slow struct {
		by     float64
		signal dashboard.Signal
	}
	var found []slow
	for i := range last.queues {
		q := &last.queues[i]
		if q.Paused || !covers(q.Name) {
			continue
		}
		before, now := first.meters[q.Name], last.meters[q.Name]
		if n := now.Wait.Count - before.Wait.Count; n > 0 {
			if mean := (now.Wait.Sum - before.Wait.Sum) / time.Duration(n); mean > waitLimit {
				found = append(found, slow{mean.Seconds(), dashboard.Signal{
					Text: fmt.Sprintf("Jobs of %s wait %s for a worker", q.Name, dashboard.Span(mean.Round(time.Second))), Link: queuePage(q.Name),
					Fix: "Start more workers for it, or give those that there are more at a time.",
				}})
				continue
			}
		}
		j := slices.IndexFunc(first.queues, func(o queue.Info) bool { return o.Name == q.Name })
		if j < 0 {
			continue
		}
		old := first.queues[j].Counts.Queued
		if more := q.Counts.Queued - old; more > growthLimit && more > old/5 {
			found = append(found, slow{float64(more), dashboard.Signal{
				Text: fmt.Sprintf("%s grows: %d more jobs wait than %s ago", q.Name, more, dashboard.Span(last.at.Sub(first.at).Round(time.Minute))), Link: queuePage(q.Name),
				Fix: "Jobs come in faster than they are done. Start more workers, or set a depth limit that tells producers to slow down.",
			}})
		}
	}
	slices.SortStableFunc(found, func(a, b slow) int { return cmp.Compare(b.by, a.by) })
	var out []dashboard.Signal
	for _, s := range found[:min(len(found), 5)] {
		out = append(out, s.signal)
	}
	return out
}

// watch looks at the node from time to time until ctx ends.
func (n *node) watch(ctx context.Context) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		n.watchOnce(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (n *node) watchOnce(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	g, err := n.api.glance(ctx, now)
	if err != nil {
		n.cfg.Logger.Debug("the node could not look at itself", "err", err)
		return
	}
	n.api.watcher.add(g)
	n.alerts.see(&g)
}
