package s3server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

const (
	module  = "github.com/versity/versitygw/cmd/versitygw"
	version = "v1.8.0"
)

// binary returns the server's program, or skips the test.
func binary(tb testing.TB) string {
	tb.Helper()
	if named := os.Getenv("HOLDFAST_VERSITYGW"); named != "" {
		return named
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(cache, "holdfast-tests", "versitygw-"+version)
	exe := filepath.Join(dir, "versitygw")
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	if _, err := os.Stat(exe); err == nil {
		return exe
	}
	if found, err := exec.LookPath("versitygw"); err == nil {
		return found
	}
	if os.Getenv("HOLDFAST_CI") != "1" {
		tb.Skipf("no S3 server: set HOLDFAST_VERSITYGW, or build it by GOBIN=%s go install %s@%s", dir, module, version)
	}
	if err := build(dir, exe); err != nil {
		tb.Fatalf("HOLDFAST_CI=1 and %v", err)
	}
	return exe
}

// build makes the program. Test binaries that run at the same time wait for the
// one that builds; the name appears only when the program is complete.
func build(dir, exe string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	lock := flock.New(filepath.Join(dir, "lock"))
	if _, err := lock.TryLockContext(ctx, time.Second); err != nil {
		return fmt.Errorf("wait for the build of versitygw: %w", err)
	}
	defer lock.Close()
	if _, err := os.Stat(exe); err == nil {
		return nil
	}
	fresh := filepath.Join(dir, "fresh")
	cmd := exec.CommandContext(ctx, "go", "install", module+"@"+version)
	cmd.Dir = dir // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+fresh, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return os.Rename(filepath.Join(fresh, filepath.Base(exe)), exe)
}
