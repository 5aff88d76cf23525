package tests_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where the clients in other languages are.
const (
	jsClient     = root + "/deploy/clients/js"
	pythonClient = root + "/deploy/clients/python"
)

// tsVersion is that of the compiler which reads the types of the JavaScript
// client. .ci/run installs it.
const tsVersion = "5.9.3"

// TestJavaScriptClient runs the client's own tests against a node.
func TestJavaScriptClient(t *testing.T) {
	node := nodeJS(t)
	lookAtClient(t, jsClient)
	n := serve(t, t.TempDir())
	cmd := exec.Command(node, "--test")
	cmd.Dir = jsClient
	runSuite(t, n, cmd)
}

// TestPythonClient runs the client's own tests against a node.
func TestPythonClient(t *testing.T) {
	python := python3(t)
	lookAtClient(t, pythonClient)
	n := serve(t, t.TempDir())
	t.Run("its files compile", func(t *testing.T) {
		cmd := exec.Command(python, "-W", "error", "-m", "compileall", "-q", "-f", "holdfast", "tests")
		cmd.Dir = pythonClient
		runSuite(t, n, cmd)
	})
	cmd := exec.Command(python, "-W", "error::ResourceWarning", "-m", "unittest")
	cmd.Dir = pythonClient
	runSuite(t, n, cmd)
}

// TestTypeScript lets the compiler read the JavaScript client's types and a
// program that uses them, rightly and wrongly.
func TestTypeScript(t *testing.T) {
	node := nodeJS(t)
	lookAtClient(t, jsClient)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "holdfast-tests", "typescript-"+tsVersion)
	tsc := filepath.Join(dir, "node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(tsc); errors.Is(err, fs.ErrNotExist) {
		skip(t, "there is no TypeScript: npm install --prefix %s typescript@%s", dir, tsVersion)
	}
	cmd := exec.Command(node, tsc, "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2023,dom,dom.asynciterable", "test/types.ts")
	cmd.Dir = jsClient
	if code, stdout, stderr := run(t, cmd); code != 0 {
		t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
	}
}

// runSuite runs a client's tests, which find the node by their environment.
func runSuite(t *testing.T, n *node, cmd *exec.Cmd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bounded.Dir = cmd.Dir
	bounded.Env = cleanEnv("HOLDFAST_TEST_URL="+n.url, "PYTHONPYCACHEPREFIX="+t.TempDir())
	code, stdout, stderr := run(t, bounded)
	if code != 0 {
		t.Errorf("%s: exit code %d:\n%s%s", cmd, code, stdout, stderr)
	}
}

// nodeJS returns a Node.js that the client supports.
func nodeJS(t *testing.T) string {
	t.Helper()
	return interpreter(t, "node", 20, 3, "-p", "process.versions.node")
}

// python3 returns a Python that the client supports.
func python3(t *testing.T) string {
	t.Helper()
	return interpreter(t, "python3", 3, 9, "-c", "import platform; print(platform.python_version())")
}

// interpreter returns the path of a program that says by args that it is of a
// version from major.minor on.
func interpreter(t *testing.T, name string, major, minor int, args ...string) string {
	t.Helper()
	needTool(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, exec.Command(path, args...))
	var gotMajor, gotMinor int
	if _, err := fmt.Sscanf(stdout, "%d.%d", &gotMajor, &gotMinor); err != nil || code != 0 {
		t.Fatalf("%s does not say its version: exit code %d, %s%s", path, code, stdout, stderr)
	}
	if gotMajor < major || gotMajor == major && gotMinor < minor {
		skip(t, "%s is %s; %d.%d or newer is needed", path, strings.TrimSpace(stdout), major, minor)
	}
	return path
}

// lookAtClient looks at the files of a client, for the sake of Go's test cache:
// see lookAtSources.
func lookAtClient(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		}
		_, err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
