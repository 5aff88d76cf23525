package dashboard

import (
	"net/http"
	"time"
)

// shownQueues bounds the table of the overview.
const shownQueues = 500

// overview is GET /.
func (h *Handler) overview(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	p := struct {
		base
		Queues []queueRow
		Totals Queue
		More   int // queues that are not shown
		Chart  chart
	}{base: h.newPage(r, v, "Overview")}
	if v.Away != "" {
		return h.render(w, http.StatusOK, "away", p.base)
	}
	queues, err := v.Reader.Queues(r.Context())
	if err != nil {
		return err
	}
	span := spanOf(r)
	minutes, err := v.Reader.Minutes(r.Context(), "", span.since(p.Now))
	if err != nil {
		return err
	}
	p.Chart = newChart(minutes, span, p.Now)
	rates := ratesOf(minutes, p.Now)
	for _, q := range queues {
		p.Dead += q.Dead
		p.Totals.add(&q)
		if len(p.Queues) == shownQueues {
			p.More++
			continue
		}
		p.Queues = append(p.Queues, queueRow{Queue: q, Rate: rates[q.Name]})
	}
	return h.render(w, http.StatusOK, "overview", p)
}

// add counts another queue in.
func (q *Queue) add(other *Queue) {
	q.Scheduled, q.Queued, q.Running, q.Dead = q.Scheduled+other.Scheduled, q.Queued+other.Queued, q.Running+other.Running, q.Dead+other.Dead
	if q.OldestAt.IsZero() || !other.OldestAt.IsZero() && other.OldestAt.Before(q.OldestAt) {
		q.OldestAt = other.OldestAt
	}
}

// queueRow is a queue of the overview.
type queueRow struct {
	Queue
	Rate rate
}

// rate is what a queue did in each of the last minutes, on average.
type rate struct{ In, Out float64 }

const rateMinutes = 5

func ratesOf(minutes []Minute, now time.Time) map[string]rate {
	since := now.Truncate(time.Minute).Add(-rateMinutes * time.Minute)
	out := map[string]rate{}
	for _, m := range minutes {
		if m.At.Before(since) || !m.At.Before(now.Truncate(time.Minute)) {
			continue
		}
		q := out[m.Queue]
		q.In += float64(m.Enqueued) / rateMinutes
		q.Out += float64(m.Done) / rateMinutes
		out[m.Queue] = q
	}
	return out
}

// countDead fills in what the navigation shows, where the page has not.
func (b *base) countDead(r *http.Request, v *Visitor) {
	if v.Away != "" {
		return
	}
	queues, err := v.Reader.Queues(r.Context())
	if err != nil {
		return // the page has something better to say
	}
	for _, q := range queues {
		b.Dead += q.Dead
	}
}

// workers is GET /workers.
func (h *Handler) workers(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	p := struct {
		base
		Workers []worker
		More    bool // not all running jobs were looked at
	}{base: h.newPage(r, v, "Workers")}
	if v.Away != "" {
		return h.render(w, http.StatusOK, "away", p.base)
	}
	p.countDead(r, v)
	running, err := v.Reader.Jobs(r.Context(), Filter{State: "running", Limit: 1000})
	if err != nil {
		return err
	}
	p.Workers, p.More = workersOf(running.Jobs), running.Next != ""
	return h.render(w, http.StatusOK, "workers", p)
}

// nodes is GET /nodes.
func (h *Handler) nodes(w http.ResponseWriter, r *http.Request, v *Visitor) error {
	p := h.newPage(r, v, "Nodes")
	p.countDead(r, v)
	return h.render(w, http.StatusOK, "nodes", p)
}
