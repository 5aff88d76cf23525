package tests_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// stockVersion is the version of Litestream that restores what we write.
const stockVersion = "v0.5.18"

// TestReplicationRestore restores to earlier states, over a change of the
// epoch, and makes one of them the present.
func TestReplicationRestore(t *testing.T) {
	replicas(t, func(t *testing.T, replica string, _ *s3server.Server) {
		p := newPlace(t, "a", replica)
		p.ok("init")
		n := p.serve()
		n.enqueue(client.Spec{Queue: "q", Type: "one"})
		one := n.synced()
		time.Sleep(1100 * time.Millisecond) // the command line takes whole seconds
		atOne := time.Now()
		time.Sleep(100 * time.Millisecond)
		n.enqueue(client.Spec{Queue: "q", Type: "two"})
		n.synced()
		n.kill()
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
		n = p.serve() // the next epoch
		n.enqueue(client.Spec{Queue: "q", Type: "three"})
		n.synced()
		time.Sleep(1100 * time.Millisecond)
		atThree := time.Now()
		time.Sleep(100 * time.Millisecond)
		n.enqueue(client.Spec{Queue: "q", Type: "four"})
		n.synced()

		dir := t.TempDir()
		for name, tt := range map[string]struct {
			args []string
			want string
		}{
			"the present":               {nil, "one two three four"},
			"a time in the epoch":       {[]string{"--time", atThree.Format(time.RFC3339Nano)}, "one two three"},
			"a time before the epoch":   {[]string{"--time", atOne.Format(time.RFC3339Nano)}, "one"},
			"an epoch before":           {[]string{"--epoch", "1"}, "one two"},
			"a TXID of an epoch before": {[]string{"--epoch", "1", "--txid", one.TXID}, "one"},
		} {
			t.Run(name, func(t *testing.T) {
				p := p.in(t)
				file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".db")
				wantParts(t, p.ok(append([]string{"restore", "--full", "-o", file}, tt.args...)...), "TXID ")
				checkDatabase(t, file)
				if got := strings.Join(jobTypes(t, file), " "); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		}
		t.Run("a time before all is said to be one", func(t *testing.T) {
			p := p.in(t)
			code, _, stderr := p.cli("restore", "-o", filepath.Join(dir, "never.db"), "--time", "2020-01-01T00:00:00Z")
			if code != 1 || !strings.Contains(stderr, "no epoch that was ready") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
		n.terminate()
		out := p.ok("adopt", filepath.Join(dir, "a-time-in-the-epoch.db"))
		wantParts(t, out, filepath.Join(p.dir, "aside"), "holdfast serve")
		n = p.serve()
		if got := n.types(); !slices.Equal(got, []string{"one", "three", "two"}) {
			t.Errorf("adopted: got %v", got)
		}
		if got := n.epoch(); got != 3 {
			t.Errorf("epoch %d, want 3", got)
		}
		if e := p.ls(); len(e.Epochs) != 3 || !e.Epochs[0].Ready || e.Epochs[0].Epoch != 3 {
			t.Errorf("epochs: %+v", e.Epochs)
		}
		p.verify()
	})
}

// TestReplicationStock restores by the stock program with the configuration
// that we print.
func TestReplicationStock(t *testing.T) {
	exe := stockLitestream(t)
	replicas(t, func(t *testing.T, replica string, s *s3server.Server) {
		p := newPlace(t, "a", replica)
		p.ok("init")
		n := p.serve()
		n.fill(100)
		want := n.types()
		n.synced()
		dir := t.TempDir()
		config, file := filepath.Join(dir, "stock.yml"), filepath.Join(dir, "copy.db")
		text := p.ok("replica", "config")
		if strings.Contains(text, s3server.SecretAccessKey) {
			t.Errorf("it holds the secret:\n%s", text)
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys := []string{"AWS_ACCESS_KEY_ID=" + s3server.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + s3server.SecretAccessKey}
		restore := func(args ...string) {
			cmd := exec.Command(exe, append([]string{"restore"}, args...)...)
			cmd.Env = cleanEnv(keys...)
			if code, stdout, stderr := run(t, cmd); code != 0 {
				t.Fatalf("%s: exit code %d: %s%s\n%s", cmd, code, stdout, stderr, text)
			}
		}
		restore("-config", config, "-o", file, n.databasePath())
		checkDatabase(t, file)
		if got := jobTypes(t, file); !slices.Equal(got, want) {
			t.Errorf("got %d jobs, want %d", len(got), len(want))
		}
		if s != nil {
			byURL := filepath.Join(dir, "by-url.db")
			restore("-o", byURL, strings.TrimSpace(p.ok("replica", "url")))
			checkDatabase(t, byURL)
		}
		if code := n.terminate(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		p.verify()
	})
}

// types are those of the jobs of the queue q, in order.
func (n *node) types() []string {
	var types []string
	for _, job := range n.jobs("q") {
		types = append(types, job.Type)
	}
	slices.Sort(types)
	return types
}

const jobTypesQuery = "select types.name from jobs join types on types.id = jobs.type order by jobs.id"

// jobTypes reads the types of the jobs in a file, in the order of their ids.
func jobTypes(t *testing.T, path string) []string {
	t.Helper()
	rows, err := openDatabase(t, path).Query(jobTypesQuery)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var types []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		types = append(types, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return types
}

// stockLitestream returns the stock program, or skips the test.
func stockLitestream(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "holdfast-tests", "litestream-"+stockVersion)
	exe := filepath.Join(dir, "litestream")
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	if _, err := os.Stat(exe); err == nil {
		return exe
	}
	const from = "github.com/benbjohnson/litestream/cmd/litestream@" + stockVersion
	if os.Getenv("HOLDFAST_CI") != "1" {
		t.Skipf("the stock Litestream is not there; build it by GOBIN=%s go install %s", dir, from)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", from)
	cmd.Dir = t.TempDir() // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("HOLDFAST_CI=1 and %s: %v\n%s", cmd, err, out)
	}
	return exe
}
