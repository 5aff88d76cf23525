//go:build faults

package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNow: the two readings of the tests' clock part as they are told to.
func TestNow(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOLDFAST_FAULTS", dir)
	before := now()
	if err := os.WriteFile(filepath.Join(dir, "clock"), []byte(`{"wall_ms":-86400000,"mono_ms":-7000}`), 0o600); err != nil {
		t.Fatal(err)
	}
	after := now()
	near := func(got, want time.Duration) bool { return got > want-time.Second && got < want+time.Minute }
	if wall := after.Round(0).Sub(before.Round(0)); !near(wall, -24*time.Hour) {
		t.Errorf("the wall clock moved by %v", wall)
	}
	if mono := after.Sub(before); !near(mono, -7*time.Second) {
		t.Errorf("the monotonic clock moved by %v", mono)
	}
}
