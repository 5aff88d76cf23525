package replicate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"holdfast/replicate"
)

// The stock program, at the version whose library we use.
const stockModule = "github.com/benbjohnson/litestream/cmd/litestream@v0.5.18"

// stockProgram returns the path of Litestream's own program. It is built where
// HOLDFAST_CI is set, which takes minutes; elsewhere the test is skipped unless
// it is there already.
func stockProgram(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(stockModule, "@")
	dir := filepath.Join(cache, "holdfast-tests", "litestream-"+version)
	program := filepath.Join(dir, "litestream")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if os.Getenv("HOLDFAST_CI") != "1" {
		t.Skipf("no stock program: build it by GOBIN=%s go install %s", dir, stockModule)
	}
	if err := buildStock(t, dir, program); err != nil {
		t.Fatal(err)
	}
	return program
}

func buildStock(t *testing.T, dir, program string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(dir, "lock")) // packages are tested side by side
	if err := lock.Lock(); err != nil {
		return err
	}
	defer lock.Unlock() //nolint:errcheck // the process ends soon
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-30*time.Second))
		defer cancel()
	}
	fresh, err := os.MkdirTemp(dir, "build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	build := exec.CommandContext(ctx, "go", "install", stockModule)
	build.Env = append(os.Environ(), "GOBIN="+fresh, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go install %s: %w: %s", stockModule, err, out)
	}
	return os.Rename(filepath.Join(fresh, "litestream"), program)
}

// runStock runs the stock program and returns its output, which is part of the
// error if it fails.
func runStock(t *testing.T, program string, args ...string) (stdout string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "LITESTREAM_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s%s", err, out, exit.Stderr)
	}
	return string(out), err
}

// TestStockProgramAgrees holds our reading of the samples against that of the
// stock program.
func TestStockProgramAgrees(t *testing.T) {
	program := stockProgram(t)
	bucket := &listings{}
	server := httptest.NewServer(bucket)
	defer server.Close()
	samples(t, server.URL, func(t *testing.T, s sample) {
		out, stockErr := runStock(t, program, "databases", "-json", "-config", s.path)
		if got := stockErr == nil; got != s.stock {
			t.Fatalf("got that the stock program accepts it: %t (%v), want %t", got, stockErr, s.stock)
		}
		c, err := replicate.LoadConfig(s.path)
		if (err == nil) != s.stock && s.why == "" {
			t.Fatalf("got %v from us, and no reason why we differ", err)
		}
		if err != nil || stockErr != nil || c.DBPath == "" {
			return
		}
		var dbs []struct{ Path, Replica string }
		if err := json.Unmarshal([]byte(out), &dbs); err != nil || len(dbs) != 1 {
			t.Fatalf("got %d databases in %s: %v", len(dbs), out, err)
		}
		if dbs[0].Path != c.DBPath || dbs[0].Replica != c.Replica.Type {
			t.Errorf("got %s in %s from the stock program, %s in %s from us", dbs[0].Path, dbs[0].Replica, c.DBPath, c.Replica.Type)
		}
		if c.Replica.Endpoint == server.URL {
			bucket.compare(t, program, s, c)
		}
	})
}

// listings is an empty bucket that remembers what was looked for in it.
type listings struct {
	mu   sync.Mutex
	seen []string // BUCKET PREFIX KEY-ID REGION
}

var signature = regexp.MustCompile(`Credential=([^/]+)/\d+/([^/]+)/`)

func (b *listings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, region := "", ""
	if m := signature.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		id, region = m[1], m[2]
	}
	b.mu.Lock()
	b.seen = append(b.seen, fmt.Sprint(strings.Trim(r.URL.Path, "/"), " ", r.URL.Query().Get("prefix"), " ", id, " ", region))
	b.mu.Unlock()
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>`)
}

// take returns what was looked for since the last call.
func (b *listings) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.seen
	b.seen = nil
	return seen
}

// compare has the stock program look for backups, with the sample and with the
// file that we write for it, and compares with our reading where it looks.
func (b *listings) compare(t *testing.T, program string, s sample, c replicate.Config) {
	t.Helper()
	written := filepath.Join(t.TempDir(), "stock.yml")
	if err := os.WriteFile(written, c.Stock(c.DBPath, "e1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, root := range map[string]string{s.path: c.Replica.Path, written: strings.Trim(c.Replica.Path+"/e1", "/")} {
		b.take()
		_, err := runStock(t, program, "restore", "-dry-run", "-json", "-o", filepath.Join(t.TempDir(), "copy"), "-config", file, c.DBPath)
		if err == nil || !strings.Contains(err.Error(), "no matching backup files") {
			t.Fatalf("%s: got %v, want an empty replica", file, err)
		}
		requests := b.take()
		if len(requests) == 0 {
			t.Fatalf("%s: no request was seen", file)
		}
		for _, seen := range requests {
			f := strings.Split(seen, " ")
			if f[0] != c.Replica.Bucket || !strings.HasPrefix(strings.TrimLeft(f[1], "/"), root) || f[2] != c.Replica.AccessKeyID || f[3] != c.Replica.Region {
				t.Errorf("%s: got a request for bucket %s, prefix %s, key %s, region %s, want %s, %s, %s, %s",
					file, f[0], f[1], f[2], f[3], c.Replica.Bucket, root, c.Replica.AccessKeyID, c.Replica.Region)
			}
		}
	}
}

// TestEveryKeyOfTheStockProgramIsKnown reads the keys out of its source, so that
// another version cannot bring one that we would call a typing error.
func TestEveryKeyOfTheStockProgramIsKnown(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/benbjohnson/litestream").Output()
	if err != nil {
		t.Fatal(err) // the tests run by go, so it is there
	}
	sources := []string{"cmd/litestream/main.go", "server.go", "internal/log.go"}
	keys := 0
	for _, source := range sources {
		text := readFile(t, filepath.Join(strings.TrimSpace(string(dir)), source))
		for _, m := range regexp.MustCompile("`yaml:\"([a-z0-9][a-z0-9-]*)\"`").FindAllStringSubmatch(text, -1) {
			keys++
			_, err := replicate.ParseConfig("l.yml", []byte("dbs: [{path: /a, replica: {path: /b, "+m[1]+": 1}}]"))
			if err != nil && strings.Contains(err.Error(), "unknown key") {
				t.Errorf("%s: %s is a key of the stock program: %v", source, m[1], err)
			}
		}
	}
	if keys < 80 {
		t.Errorf("got %d keys, want those of the program", keys)
	}
}

func TestStockHoldsNoSecret(t *testing.T) {
	c := replicate.DefaultConfig(t.TempDir())
	c.Replica = replicate.Replica{Type: "s3", Bucket: "jobs", Path: "node1", Endpoint: "https://h", AccessKeyID: "AKIA123", SecretAccessKey: "hunter2"}
	t.Run("keys of unknown origin are the usual variables", func(t *testing.T) {
		got := string(c.Stock("/data/holdfast.db", "e00000007"))
		for _, want := range []string{
			"# Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to", "access-key-id: '${AWS_ACCESS_KEY_ID}'\n", `path: "node1/e00000007"`, `path: "/data/holdfast.db"`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %q in it", got, want)
			}
		}
		if strings.Contains(got+c.ReplicaURL(), "AKIA123") || strings.Contains(got+c.ReplicaURL(), "hunter2") {
			t.Errorf("got a key in %s\n%s", c.ReplicaURL(), got)
		}
	})
	t.Run("keys keep the variables that they came from", func(t *testing.T) {
		t.Setenv("MY_ID", "AKIA123")
		t.Setenv("MY_SECRET", "hunter2")
		c, err := replicate.ParseConfig("l.yml", []byte("dbs: [{path: /a, replica: {type: s3, bucket: b, access-key-id: \"${MY_ID}\", secret-access-key: \"$MY_SECRET\"}}]"))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(c.Stock("/a", "e1")); !strings.Contains(got, "secret-access-key: '${MY_SECRET}'\n") || !strings.Contains(got, "# Set MY_ID and MY_SECRET to") {
			t.Errorf("got\n%s", got)
		}
	})
}

func TestStockReadsAFolderWithADollar(t *testing.T) {
	program := stockProgram(t)
	t.Setenv("DOLLAR", "$")
	c := replicate.DefaultConfig(filepath.Join(t.TempDir(), "a$b \"c\" #d"))
	file, db := filepath.Join(t.TempDir(), "stock.yml"), "/data/$x/holdfast.db"
	if err := os.WriteFile(file, c.Stock(db, "e1"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runStock(t, program, "databases", "-config", file)
	if err != nil || !strings.Contains(out, db) {
		t.Errorf("got %s, %v, want %s", out, err, db)
	}
}
