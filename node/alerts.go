package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of Alerts.
const (
	DefaultAlertDead    = 100
	DefaultAlertOldest  = 15 * time.Minute
	DefaultAlertExposed = time.Minute
)

// Alerts says when a person must know, and where to tell it. It is for those
// without Prometheus.
type Alerts struct {
	Webhook string        // a URL that takes POSTs of JSON; empty: nobody is told
	Dead    int64         // more dead jobs than that in a queue; 0: DefaultAlertDead
	Oldest  time.Duration // a job of a queue that is not paused has been due for longer; 0: DefaultAlertOldest
	Exposed time.Duration // a commit has been on this disk alone for longer; 0: DefaultAlertExposed
}

func (c Alerts) withDefaults() Alerts {
	c.Dead, c.Oldest, c.Exposed = cmp.Or(c.Dead, DefaultAlertDead), cmp.Or(c.Oldest, DefaultAlertOldest), cmp.Or(c.Exposed, DefaultAlertExposed)
	return c
}

// problems says what is wrong with c.
func (c Alerts) problems() []string {
	var out []string
	if c.Webhook != "" {
		if u, err := url.Parse(c.Webhook); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			out = append(out, "alert webhook: it must be a URL such as https://hooks.example.com/holdfast")
		}
	}
	if c.Dead < 0 || c.Oldest < 0 || c.Exposed < 0 {
		out = append(out, "alerts: a limit must not be negative")
	}
	return out
}

// Alert is the body that a webhook gets. It has no payload and no error of a job.
type Alert struct {
	Status string  `json:"status"` // firing, and later resolved
	Alert  string  `json:"alert"`  // dead_jobs, oldest_job or replication_exposed
	Queue  string  `json:"queue,omitempty"`
	Value  float64 `json:"value"` // jobs, or seconds
	Limit  float64 `json:"limit"`
	Text   string  `json:"text"` // of all that, in words
	Node   string  `json:"node"`
	URL    string  `json:"url"` // of the node
	AtMS   int64   `json:"at_ms"`
}

func (a *Alert) key() string { return a.Alert + " " + a.Queue }

// raised are the alerts that hold at a glance.
func (c Alerts) raised(g *glance) []Alert {
	var out []Alert
	seconds := func(d time.Duration) float64 { return d.Round(time.Second).Seconds() }
	for i := range g.queues {
		q := &g.queues[i]
		if n := q.Counts.Dead; n > c.Dead {
			out = append(out, Alert{Alert: "dead_jobs", Queue: q.Name, Value: float64(n), Limit: float64(c.Dead), Text: fmt.Sprintf("%d jobs of the queue %s are dead", n, q.Name)})
		}
		if waits := g.at.Sub(q.OldestAt); !q.OldestAt.IsZero() && !q.Paused && waits > c.Oldest {
			out = append(out, Alert{Alert: "oldest_job", Queue: q.Name, Value: seconds(waits), Limit: seconds(c.Oldest), Text: fmt.Sprintf("a job of the queue %s has been due for %s", q.Name, waits.Round(time.Second))})
		}
	}
	if g.exposed > c.Exposed {
		out = append(out, Alert{Alert: "replication_exposed", Value: seconds(g.exposed), Limit: seconds(c.Exposed), Text: fmt.Sprintf("commits of the last %s are on the node's disk only", g.exposed.Round(time.Second))})
	}
	return out
}

// Paces of the webhook.
const (
	alertTimeout  = 10 * time.Second // of one POST
	alertBackoff  = time.Second      // after the first failure; doubled up to
	alertSlowest  = 5 * time.Minute
	alertsAtOnce  = 1000 // that are told of; a node with more has told enough
	alertRequests = "holdfast-alerts"
)

// alerts tells a webhook of each episode once when it begins and once when it
// ends. What is to be told follows from what holds now and what was told: an
// episode that ended before anybody could be told of it is not told at all.
type alerts struct {
	conf      Alerts
	log       *slog.Logger
	node, url string
	client    *http.Client
	backoff   time.Duration // alertBackoff, or less in a test

	mu   sync.Mutex
	now  map[string]Alert // that hold
	told map[string]Alert // that were told of
	term int              // how often told was forgotten
	wake chan struct{}
}

func newAlerts(cfg Config, address string) *alerts {
	return &alerts{
		conf: cfg.Alerts.withDefaults(), log: cfg.Logger, node: cfg.Node, url: address, client: &http.Client{Timeout: alertTimeout},
		backoff: alertBackoff, now: map[string]Alert{}, told: map[string]Alert{}, wake: make(chan struct{}, 1),
	}
}

// see takes a glance at the node. It does not wait for anything.
func (a *alerts) see(g *glance) {
	if a == nil || a.conf.Webhook == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = map[string]Alert{}
	if !g.hasStore { // whoever is the primary now tells of what it sees
		a.told = map[string]Alert{}
		a.term++
		return
	}
	for _, one := range a.conf.raised(g) {
		if len(a.now) < alertsAtOnce {
			one.Node, one.URL, one.AtMS = a.node, a.url, g.at.UnixMilli()
			a.now[one.key()] = one
		}
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// next returns something to tell and the term that it belongs to; false: there
// is nothing.
func (a *alerts) next() (one Alert, term int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for key := range a.now {
		if _, ok := a.told[key]; !ok {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		one = a.now[slices.Min(keys)]
		one.Status = "firing"
		return one, a.term, true
	}
	for key := range a.told {
		if _, ok := a.now[key]; !ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return Alert{}, a.term, false
	}
	one = a.told[slices.Min(keys)]
	one.Status, one.Text, one.AtMS = "resolved", "no longer: "+one.Text, time.Now().UnixMilli()
	return one, a.term, true
}

// done notes that one was told, unless its term is over.
func (a *alerts) done(one Alert, term int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if term != a.term {
		return
	}
	if delete(a.told, one.key()); one.Status == "firing" {
		a.told[one.key()] = one
	}
}

// run tells until ctx ends.
func (a *alerts) run(ctx context.Context) {
	wait := a.backoff
	for {
		one, term, ok := a.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-a.wake:
			}
			continue
		}
		if err := a.post(ctx, &one); err != nil {
			a.log.Warn("the alert webhook failed; it is tried again", "alert", one.Alert, "queue", one.Queue, "in", wait, "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, alertSlowest)
			continue
		}
		wait = a.backoff
		a.log.Info("alert told", "alert", one.Alert, "queue", one.Queue, "status", one.Status)
		a.done(one, term)
	}
}

// post tells one. Its error does not have the URL, which may hold a secret.
func (a *alerts) post(ctx context.Context, one *Alert) error {
	body, err := json.Marshal(one)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.conf.Webhook, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	req.Header.Set("Content-Type", jsonContentType)
	req.Header.Set("User-Agent", alertRequests)
	resp, err := a.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // its own text has the URL
			err = e.Err
		}
		return fmt.Errorf("%s: %s", req.URL.Host, strings.ReplaceAll(err.Error(), a.conf.Webhook, "…"))
	}
	_ = resp.Body.Close() // nothing is read of it
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", req.URL.Host, resp.Status)
	}
	return nil
}
