package tests_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// npmModules returns a directory with a script of a folder of tests and the
// packages that it needs, in the versions of its package-lock.json; false: they
// are not installed on this machine.
func npmModules(t *testing.T, from, name string) (dir string, ok bool) {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	kept := filepath.Join(cache, "holdfast-tests", "npm-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(filepath.Join(kept, "complete")); err != nil {
		if os.Getenv("HOLDFAST_CI") != "1" {
			return "", false
		}
		installModules(t, from, kept)
	}
	needTool(t, "node")
	dir = t.TempDir()
	script, err := os.ReadFile(filepath.Join(from, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), script, 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(kept, "node_modules"), filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, true
}

func installModules(t *testing.T, from, to string) {
	t.Helper()
	needTool(t, "npm")
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = to
	if code, stdout, stderr := run(t, cmd); code != 0 {
		t.Fatalf("%s: %d\n%s%s", cmd, code, stdout, stderr)
	}
	if err := os.WriteFile(filepath.Join(to, "complete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// sqlNode is a node that serves SQL to whoever has the token, and to pages of
// two origins, one of which it lets in.
func sqlNode(t *testing.T) (env []string) {
	t.Helper()
	page, stranger, addr := freeAddr(t), freeAddr(t), freeAddr(t)
	secret := strings.Repeat("5e", 20)
	cmd := exec.Command(binary(t), "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", freeAddr(t),
		"--sql-listen", addr, "--sql-origin", "http://"+page)
	cmd.Env = cleanEnv("HOLDFAST_ADMIN_TOKEN=" + secret)
	n := &node{process: launch(t, cmd), url: "http://" + cmd.Args[5]}
	n.waitReady(20 * time.Second)
	c, err := client.New(n.url, client.Options{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	fillQueues(t, c)
	made, err := c.CreateToken(t.Context(), client.TokenRequest{Name: "reader", Scopes: []string{client.ScopeView}})
	if err != nil {
		t.Fatal(err)
	}
	port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
	return []string{"SQL_URL=http://" + addr, "SQL_TOKEN=" + made.Token, "PAGES=" + port(page) + "," + port(stranger)}
}

// fillQueues makes a dead job and a queued one in the queue mail.
func fillQueues(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	if _, err := c.Enqueue(ctx, client.Spec{Queue: "mail", Payload: []byte(`"secret"`), MaxAttempts: 1}, client.Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}, Max: 1, Worker: "w:1:a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fail(ctx, client.Fail{Lease: claims.Jobs[0].Lease, Error: "smtp 451"}); err != nil {
		t.Fatal(err)
	}
}

// seen is what a client prints.
type seen struct {
	Rows []struct {
		Queue     string
		Queued    int
		LastError string `json:"last_error"`
	}
	Batch    any
	Jobs     int
	Blob     string
	Dead     int
	Write    string
	Wrong    string
	Payload  int
	Inside   int
	Stranger string
}

func TestSQLClients(t *testing.T) {
	dir, ok := npmModules(t, "sqlclients", "clients.mjs")
	if !ok {
		t.Skip("the npm packages of tests/sqlclients are not installed; HOLDFAST_CI=1 installs them")
	}
	env := sqlNode(t)
	read := func(t *testing.T, name string, more ...string) seen {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", "clients.mjs", name)
		cmd.Dir, cmd.Env = dir, append(cleanEnv(env...), more...)
		code, stdout, stderr := run(t, cmd)
		var s seen
		if err := json.Unmarshal([]byte(stdout), &s); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
		}
		if len(s.Rows) != 1 || s.Rows[0].Queue != "mail" || s.Rows[0].Queued != 1 || s.Rows[0].LastError != "smtp 451" {
			t.Errorf("queue_health: %+v", s.Rows)
		}
		if !strings.Contains(s.Write, "read only") || !strings.Contains(s.Write, "READONLY") {
			t.Errorf("a write: %q", s.Write)
		}
		return s
	}
	whole := func(t *testing.T, s seen) {
		t.Helper()
		if s.Jobs != 2 || s.Blob != "0,255,16" || s.Dead != 16 || s.Payload != 0 {
			t.Errorf("got %+v", s)
		}
		if batch, ok := s.Batch.([]any); !ok || batch[0] != 1.0 || batch[1] != "xy" {
			t.Errorf("a batch: %v", s.Batch)
		}
		if !strings.Contains(s.Wrong, "token") {
			t.Errorf("a wrong token: %q", s.Wrong)
		}
	}
	t.Run("@libsql/client reads", func(t *testing.T) { whole(t, read(t, "node")) })
	t.Run("@libsql/client/web reads", func(t *testing.T) { whole(t, read(t, "web")) })
	t.Run("@tursodatabase/serverless reads", func(t *testing.T) {
		if s := read(t, "serverless"); s.Batch != true || !strings.Contains(s.Wrong, "401") {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("drizzle-orm reads", func(t *testing.T) {
		if s := read(t, "drizzle"); s.Inside != 1 {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("a page of another origin reads in Chromium, if the node lets it", func(t *testing.T) {
		needTool(t, "chromium")
		exe, err := exec.LookPath("chromium")
		if err != nil {
			t.Fatal(err)
		}
		s := read(t, "browser", "CHROMIUM="+exe)
		whole(t, s)
		if s.Stranger == "" {
			t.Error("a page that is not let in reads too")
		}
	})
}
