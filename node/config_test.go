package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/node"
)

func TestConfigValidate(t *testing.T) {
	t.Run("a data directory is enough", func(t *testing.T) {
		if err := (node.Config{Data: "data"}).Validate(); err != nil {
			t.Error(err)
		}
	})
	for _, addr := range []string{"127.0.0.1:0", "localhost:7780", "[::1]:7780", "127.1.2.3:65535", ":7780", "0.0.0.0:7780", "example.com:7780"} {
		t.Run(addr+" is accepted", func(t *testing.T) {
			if err := (node.Config{Data: "data", Listen: addr}).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	for addr, part := range map[string]string{
		"127.0.0.1":         "not host:port",
		"127.0.0.1:http":    "no port",
		"127.0.0.1:70000":   "no port",
		"127.0.0.1:-1":      "no port",
		"http://127.0.0.1/": "no port",
	} {
		t.Run(addr+" is refused", func(t *testing.T) {
			err := node.Config{Data: "data", Listen: addr}.Validate()
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want it to contain %q", err, part)
			}
		})
	}
	t.Run("all problems are told at once", func(t *testing.T) {
		err := node.Config{Listen: "0.0.0.0", MaxRound: -1, ShutdownGrace: -time.Second}.Validate()
		var config *node.ConfigError
		if !errors.As(err, &config) || len(config.Problems) != 4 {
			t.Fatalf("got %v, want 4 problems", err)
		}
		for i, field := range []string{"data: ", "listen: ", "max round: ", "shutdown grace: "} {
			if !strings.HasPrefix(config.Problems[i], field) {
				t.Errorf("problem %d: got %q, want it to begin with %q", i, config.Problems[i], field)
			}
		}
	})
}
