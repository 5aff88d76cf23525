//go:build faults && unix

package replicate

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// fault strikes at a named point if the folder HOLDFAST_FAULTS has a file of
// that name, which says how: kill ends the process as kill -9 does, stop stops it
// until it gets SIGCONT, and fail makes the point fail. The file goes first: it
// strikes once, and a test sees that it did.
func fault(point string) error {
	dir := os.Getenv("HOLDFAST_FAULTS")
	if dir == "" {
		return nil
	}
	path := filepath.Join(dir, point)
	how, err := os.ReadFile(path)
	if err != nil || os.Remove(path) != nil {
		return nil // not armed, or another goroutine was first
	}
	switch string(how) {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal takes a moment
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(20 * time.Millisecond) // the other threads stop too by then
		return nil
	}
	return fmt.Errorf("fault at %s", point)
}
