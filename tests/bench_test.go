package tests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestBenchStops interrupts a benchmark while its nodes run: nothing of it may
// stay on the machine.
func TestBenchStops(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no interrupt to send on windows")
	}
	dir := t.TempDir()
	cmd := exec.Command(binary(t), "bench", "--suite", "http", "--json")
	cmd.Env = cleanEnv("TMPDIR=" + dir)
	p := launch(t, cmd)
	eventually(t, 10*time.Second, "a node of the benchmark runs", func() bool {
		locks, _ := filepath.Glob(filepath.Join(dir, "holdfast-bench-*", "node-*", "*.db"))
		return len(locks) > 0
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(10 * time.Second); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	// A node that still ran would hold its directory, which the benchmark
	// removes only after it has waited for the node.
	if len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}
