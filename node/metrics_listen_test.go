package node_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"holdfast/node"
)

func TestMetricsListen(t *testing.T) {
	addr := freeAddr(t)
	n := start(t, node.Config{MetricsListen: addr, AdminToken: strings.Repeat("a", 32)})
	get := func(url, host string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for _, tt := range []struct {
		name, url, host string
		want            int
	}{
		{"metrics need no token there", "http://" + addr + "/metrics", "", 200},
		{"nothing else is there", "http://" + addr + "/v1/queues", "", 404},
		{"a page that names this machine as its own sees nothing", "http://" + addr + "/metrics", "evil.example.com", 403},
		{"at the API's address they need one", n.url + "/metrics", "", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := get(tt.url, tt.host); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("it is still served after the stop")
	}
	t.Run("an address that is none is told", func(t *testing.T) {
		err := node.Run(t.Context(), node.Config{Data: t.TempDir(), MetricsListen: "nine"})
		if err == nil || !strings.Contains(err.Error(), "metrics listen") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a port that is taken is told, and nothing stays open", func(t *testing.T) {
		taken := start(t, node.Config{})
		err := node.Run(t.Context(), node.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", MetricsListen: strings.TrimPrefix(taken.url, "http://")})
		if err == nil || !strings.Contains(err.Error(), "HOLDFAST_METRICS_LISTEN") {
			t.Errorf("got %v", err)
		}
	})
}
