package tests_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

var (
	killsFlag       = flag.Int("kills", 15, "how often TestKill9 kills the node")
	jobsFlag        = flag.Int("jobs", 300, "how many jobs TestWorkers enqueues for each language")
	restartsFlag    = flag.Int("restarts", 6, "how often TestWorkers stops a worker")
	shotsFlag       = flag.String("shots", "", "the directory in which TestDashboard leaves screenshots; empty: none")
	workerKillsFlag = flag.Int("workerkills", 3, "how often TestWorkers kills a worker")
)

// root is the module's directory, seen from this package.
const root = ".."

// build is a binary under test, made by the first test that needs it.
type build struct {
	tags string
	once sync.Once
	dir  string
	exe  string
	err  error
}

var (
	built  build
	faulty = build{tags: "faults"} // with the clocks and fault points of the tests
)

func TestMain(m *testing.M) {
	if os.Getenv("WORKER") != "" { // this process is a worker of TestWorkers
		os.Exit(workerMain())
	}
	flag.Parse()
	code := m.Run()
	for _, dir := range []string{built.dir, faulty.dir} {
		if dir != "" {
			_ = os.RemoveAll(dir) // a leftover in the temporary directory at worst
		}
	}
	os.Exit(code)
}

// binary returns the path of the binary under test.
func binary(t *testing.T) string {
	t.Helper()
	return built.path(t)
}

func (b *build) path(t *testing.T) string {
	t.Helper()
	b.once.Do(b.make)
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.exe
}

func (b *build) make() {
	b.dir, b.err = os.MkdirTemp("", "holdfast-tests-")
	if b.err != nil {
		return
	}
	b.exe = filepath.Join(b.dir, "holdfast")
	if runtime.GOOS == "windows" {
		b.exe += ".exe"
	}
	if b.err = lookAtSources(); b.err != nil {
		return
	}
	cmd := exec.Command("go", "build", "-tags", b.tags, "-o", b.exe, "./cmd/holdfast")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.err = fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
}

// lookAtSources looks at every file that the binary is made of. Go's test cache
// remembers what a test looked at, but not what the compiler that it started
// did: without this, a cached result would outlive a change of the server.
func lookAtSources() error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "data" || name == "tests") {
				return fs.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go", ".sql", ".mod", ".sum", ".html", ".css", ".js":
			_, err = os.Stat(path)
		}
		return err
	})
}

// needTool skips t when the tool is not installed; where everything must be
// there it fails t.
func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		skip(t, "%s is not installed", name)
	}
}

// skip skips t for what its machine lacks, and fails it under HOLDFAST_CI=1.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOLDFAST_CI") == "1" {
		t.Fatalf("HOLDFAST_CI=1 and "+format, args...)
	}
	t.Skipf(format, args...)
}
