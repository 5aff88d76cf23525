package node_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/node"
	"holdfast/queue"
)

func TestConfigValidate(t *testing.T) {
	t.Run("a data directory is enough", func(t *testing.T) {
		if err := (node.Config{Data: "data"}).Validate(); err != nil {
			t.Error(err)
		}
	})
	for _, addr := range []string{"127.0.0.1:0", "localhost:7780", "[::1]:7780", "127.1.2.3:65535"} {
		t.Run(addr+" is accepted", func(t *testing.T) {
			if err := (node.Config{Data: "data", Listen: addr}).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	for addr, part := range map[string]string{
		":7780":             "beyond loopback",
		"0.0.0.0:7780":      "beyond loopback",
		"[::]:7780":         "beyond loopback",
		"192.168.1.1:7780":  "beyond loopback",
		"example.com:7780":  "beyond loopback",
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
		err := node.Config{Listen: "0.0.0.0:1", MaxRound: -1, ShutdownGrace: -time.Second}.Validate()
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

func TestExitCode(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"success is 0", nil, 0},
		{"a failure is 1", errors.New("port taken"), 1},
		{"a network disk is 1", queue.ErrNetworkDisk, 1},
		{"a bad configuration is 2", node.Config{}.Validate(), 2},
		{"a locked directory is 4", node.ErrLocked, 4},
		{"refused data is 6", node.ErrRefused, 6},
		{"a newer schema is 6", queue.ErrNewerSchema, 6},
		{"a foreign file is 6", queue.ErrForeignFile, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err
			if err != nil {
				err = fmt.Errorf("run: %w", err)
			}
			if got := node.ExitCode(err); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
