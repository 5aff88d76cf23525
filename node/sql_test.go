package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/node"
)

// freePort returns a loopback address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestSQLListener(t *testing.T) {
	addr := freePort(t)
	n := start(t, node.Config{NoReplica: true, SQLListen: addr, SQLOrigins: []string{"https://app.example"}})
	n.post("/v1/jobs", `{"queue":"mail"}`)
	query := func(t *testing.T, host, origin string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v2/pipeline",
			strings.NewReader(`{"requests":[{"type":"execute","stmt":{"sql":"select queue from queue_health"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, tt := range []struct {
		outcome, host, origin string
		status                int
		says                  string
	}{
		{"programs of this machine read", "", "", 200, `"value":"mail"`},
		{"a page that is let in reads", "", "https://app.example", 200, `"value":"mail"`},
		{"another page is refused", "", "https://evil.example", 403, "ORIGIN_REFUSED"},
		{"a name that was made to resolve here is refused", "evil.example", "", 403, "Host header"},
		{"so is its page", "evil.example", "http://evil.example", 403, "Host header"},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			if status, text := query(t, tt.host, tt.origin); status != tt.status || !strings.Contains(text, tt.says) {
				t.Errorf("got %d, %s", status, text)
			}
		})
	}
	t.Run("the node stops, and its port is free", func(t *testing.T) {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	})
}

func TestSQLListenerRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		outcome, says string
		change        func(*node.Config)
	}{
		{"an address that others reach needs a token", "beyond loopback", func(c *node.Config) { c.SQLListen = "0.0.0.0:0" }},
		{"an address that is none", "sql listen", func(c *node.Config) { c.SQLListen = "nonsense" }},
		{"a port that is taken", "another process", func(c *node.Config) { c.SQLListen = taken.Addr().String() }},
		{"an origin with a path", "sql origin", func(c *node.Config) { c.SQLOrigins = []string{"https://app.example/"} }},
		{"every origin", "sql origin", func(c *node.Config) { c.SQLOrigins = []string{"*"} }},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			cfg := node.Config{Data: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", NoReplica: true}
			tt.change(&cfg)
			err := node.Run(context.Background(), cfg)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(node.DatabasePath(cfg.Data)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a database was made: %v", err)
			}
		})
	}
}
