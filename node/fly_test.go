package node_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/replicate"
)

func TestFlyReplay(t *testing.T) {
	const own = "http://b2.vm.jobs.internal:8080"
	tests := map[string]struct {
		app     string // FLY_APP_NAME of the standby b2; "": it is not on Fly
		primary string
		src     string // Fly-Replay-Src
		size    int
		want    string
	}{
		"a write goes to the machine of the primary":      {"jobs", "http://a1.vm.jobs.internal:8080", "", 10, "instance=a1"},
		"to another app, when the primary is there":       {"jobs-edge", "http://a1.vm.jobs.internal:8080", "", 10, "app=jobs"},
		"also by its public name":                         {"jobs-edge", "https://jobs.fly.dev", "", 10, "app=jobs"},
		"and by its private one":                          {"jobs-edge", "http://ams.jobs.internal:8080", "", 10, "app=jobs"},
		"and by the one of its proxy":                     {"jobs-edge", "http://jobs.flycast", "", 10, "app=jobs"},
		"one that an edge sent goes on to the primary":    {"jobs", "http://a1.vm.jobs.internal:8080", "instance=e9;region=fra;t=1", 10, "instance=a1"},
		"one that came from the primary does not go back": {"jobs", "http://a1.vm.jobs.internal:8080", "region=ams; instance=a1", 10, ""},
		"a node does not send to itself":                  {"jobs", own, "", 10, ""},
		"nor to all machines of its app":                  {"jobs", "https://jobs.fly.dev", "", 10, ""},
		"nor to a primary that is not on Fly":             {"jobs", "https://jobs.example.com", "", 10, ""},
		"nor what the proxy did not keep":                 {"jobs", "http://a1.vm.jobs.internal:8080", "", 1<<20 + 1, ""},
		"elsewhere there is no such proxy":                {"", "http://a1.vm.jobs.internal:8080", "", 10, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("FLY_APP_NAME", tt.app)
			t.Setenv("FLY_MACHINE_ID", "b2")
			api := node.NewAPI(node.Config{Data: t.TempDir()})
			api.Standby("other", tt.primary)
			r := httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader(strings.Repeat("x", tt.size)))
			r.Host = "127.0.0.1"
			if tt.src != "" {
				r.Header.Set("Fly-Replay-Src", tt.src)
			}
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if got := w.Header().Get("Fly-Replay"); w.Code != http.StatusServiceUnavailable || got != tt.want {
				t.Errorf("got %d, %q, want 503, %q", w.Code, got, tt.want)
			}
			if got := w.Header().Get("Holdfast-Primary"); got != tt.primary {
				t.Errorf("primary: got %q, want %q", got, tt.primary)
			}
		})
	}
	t.Run("what is no write of the queue is not sent anywhere", func(t *testing.T) {
		t.Setenv("FLY_APP_NAME", "jobs")
		api := node.NewAPI(node.Config{Data: t.TempDir()})
		api.Standby("other", "http://a1.vm.jobs.internal:8080")
		r := httptest.NewRequest(http.MethodGet, "/readyz", nil)
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if got := w.Header().Get("Fly-Replay"); got != "" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAdvertise(t *testing.T) {
	// What the root is told of the node is what other nodes and clients go to.
	told := func(t *testing.T, cfg node.Config) string {
		var url string
		cfg.Data = t.TempDir()
		cfg = node.WithAcquire(cfg, func(_ context.Context, opts replicate.Options) (node.Primary, error) {
			url = opts.URL
			return nil, context.Canceled
		})
		var g errgroup.Group
		g.Go(func() error { return node.Run(t.Context(), cfg) })
		_ = g.Wait() // it is not the error that counts
		return url
	}
	t.Run("what listens on loopback is found there", func(t *testing.T) {
		t.Setenv("FLY_APP_NAME", "jobs")
		t.Setenv("FLY_MACHINE_ID", "b2")
		if got := told(t, node.Config{Listen: "127.0.0.1:0"}); !strings.HasPrefix(got, "http://127.0.0.1:") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a machine of Fly's is found by its name", func(t *testing.T) {
		env := map[string]string{"FLY_APP_NAME": "jobs", "FLY_MACHINE_ID": "b2"}
		got := node.FlyURL(func(name string) string { return env[name] }, &net.TCPAddr{IP: net.IPv6zero, Port: 8080})
		if want := "http://b2.vm.jobs.internal:8080"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("what was said counts", func(t *testing.T) {
		if got := told(t, node.Config{Listen: "127.0.0.1:0", Advertise: "https://jobs.example.com"}); got != "https://jobs.example.com" {
			t.Errorf("got %q", got)
		}
	})
}
