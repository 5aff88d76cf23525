package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/queue"
)

// hook is a webhook that fails a number of times.
func hook(t *testing.T, failures int64) (url string, got chan node.Alert) {
	t.Helper()
	got = make(chan node.Alert, 100)
	var tries atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) <= failures {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		var one node.Alert
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s: %v", r.Method, err)
		}
		got <- one
	}))
	t.Cleanup(server.Close)
	return server.URL + "/secret", got
}

func TestAlerts(t *testing.T) {
	url, got := hook(t, 3)
	log := &bytes.Buffer{}
	teller := node.NewAlertTeller(node.Alerts{Webhook: url, Dead: 2}, slog.New(slog.NewTextHandler(log, nil)))
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { teller.Run(ctx); return nil })
	defer func() {
		stop()
		_ = g.Wait()
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log has the URL: %s", log)
		}
		if !strings.Contains(log.String(), "500") {
			t.Errorf("the log does not have the failures: %s", log)
		}
	}()
	next := func() node.Alert {
		t.Helper()
		select {
		case one := <-got:
			return one
		case <-time.After(30 * time.Second):
			t.Fatal("nothing was told")
			return node.Alert{}
		}
	}
	dead := func(n int64) queue.Info { return queue.Info{Name: "mail", Counts: queue.Counts{Dead: n}} }

	teller.See(0, dead(2)) // not above the limit
	teller.See(0, dead(3))
	one := next()
	if one.Status != "firing" || one.Alert != "dead_jobs" || one.Queue != "mail" || one.Value != 3 || one.Limit != 2 || one.Node != "n1" || one.Text == "" {
		t.Errorf("got %+v", one)
	}
	teller.See(0, dead(4)) // the same episode
	teller.See(0, dead(1))
	if one := next(); one.Status != "resolved" || one.Alert != "dead_jobs" || one.Queue != "mail" {
		t.Errorf("got %+v", one)
	}
	teller.See(2*time.Minute, dead(1))
	if one := next(); one.Status != "firing" || one.Alert != "replication_exposed" || one.Value != 120 {
		t.Errorf("got %+v", one)
	}
	teller.See(0) // the node lost its place: the next one tells
	late := queue.Info{Name: "late", OldestAt: time.Now().Add(-time.Hour)}
	paused := queue.Info{Name: "paused", OldestAt: time.Now().Add(-time.Hour), Paused: true}
	teller.See(0, late, paused)
	if one := next(); one.Status != "firing" || one.Alert != "oldest_job" || one.Queue != "late" || one.Value < 3599 {
		t.Errorf("got %+v", one)
	}
	if len(got) > 0 {
		t.Errorf("too much was told: %+v", <-got)
	}
}

func TestAlertConfig(t *testing.T) {
	for _, conf := range []node.Alerts{{Webhook: "hooks.example.com"}, {Webhook: "ftp://a"}, {Dead: -1}, {Oldest: -time.Second}} {
		if err := (node.Config{Data: "data", Alerts: conf}).Validate(); err == nil {
			t.Errorf("%+v was accepted", conf)
		}
	}
}

func TestOutgrown(t *testing.T) {
	mail := func(queued int64) queue.Info { return queue.Info{Name: "mail", Counts: queue.Counts{Queued: queued}} }
	meter := func(n int64, sum time.Duration) queue.Meter {
		return queue.Meter{Queue: "mail", Wait: queue.Spans{Count: n, Sum: sum}}
	}
	for name, tt := range map[string]struct {
		first, last node.Seen
		want        string
	}{
		"a node at rest says nothing":         {node.Seen{Queue: mail(5)}, node.Seen{Queue: mail(900)}, ""},
		"a busy writer is said":               {node.Seen{}, node.Seen{Load: queue.Load{Rounds: 9, Busy: 4 * time.Minute}}, "The writer is busy 80 % of the time"},
		"a writer with time is not":           {node.Seen{}, node.Seen{Load: queue.Load{Rounds: 9, Busy: 3 * time.Minute}}, ""},
		"a large WAL is said":                 {node.Seen{}, node.Seen{WAL: 300_000_000}, "The WAL has grown to 300 MB"},
		"a queue that grows is said":          {node.Seen{Queue: mail(100)}, node.Seen{Queue: mail(5000)}, "mail grows: 4900 more jobs wait than 5 minutes ago"},
		"jobs that wait for workers are":      {node.Seen{Queue: mail(0), Meter: meter(10, 0)}, node.Seen{Queue: mail(0), Meter: meter(20, 20*time.Minute)}, "Jobs of mail wait 2 minutes for a worker"},
		"jobs that waited in the past aren't": {node.Seen{Queue: mail(0), Meter: meter(20, time.Hour)}, node.Seen{Queue: mail(0), Meter: meter(30, time.Hour+time.Second)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(node.Outgrown(5*time.Minute, tt.first, tt.last), "; "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
