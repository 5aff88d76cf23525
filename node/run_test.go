package node_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

// running is a node under test, in this process.
type running struct {
	t      *testing.T
	url    string
	client *http.Client
	stop   func() error // asks it to stop, and returns Run's error
}

// start runs a node until the test ends and returns when it is ready.
func start(t *testing.T, cfg node.Config) *running {
	t.Helper()
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	ready := make(chan string, 1)
	cfg.OnReady = func(url string) { ready <- url }
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error {
		defer close(ready)
		return node.Run(ctx, cfg)
	})
	n := &running{t: t, client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}}
	n.stop = func() error {
		cancel()
		n.client.CloseIdleConnections()
		return g.Wait()
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil && !t.Failed() {
			t.Logf("run: %v", err)
		}
	})
	n.url = <-ready
	if n.url == "" {
		t.Fatalf("run: %v", n.stop())
	}
	return n
}

// reply is an HTTP answer that was read to its end.
type reply struct {
	*http.Response
	body []byte
}

// post sends a body as curl -d would.
func (n *running) post(path, body string) reply {
	n.t.Helper()
	resp, err := n.client.Post(n.url+path, "application/x-www-form-urlencoded", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{resp, text}
}

func TestRun(t *testing.T) {
	before := runtime.NumGoroutine()
	dir := filepath.Join(t.TempDir(), "deep", "data")
	n := start(t, node.Config{Data: dir, Version: "1.2.3"})
	t.Run("it serves once it is ready", func(t *testing.T) {
		got := n.post("/v1/jobs", `{"queue":"mail"}`)
		if got.StatusCode != http.StatusCreated || got.ContentLength != int64(len(got.body)) || got.Header.Get("Holdfast-Seq") == "" {
			t.Errorf("got %d, %v: %s", got.StatusCode, got.Header, got.body)
		}
	})
	t.Run("the directory is closed to others", func(t *testing.T) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o700 {
			t.Errorf("got %o", got)
		}
	})
	t.Run("a second node on the directory is locked out", func(t *testing.T) {
		err := node.Run(context.Background(), node.Config{Data: dir, Listen: "127.0.0.1:0"})
		if !errors.Is(err, node.ErrLocked) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a second node on the port says what to do", func(t *testing.T) {
		addr := strings.TrimPrefix(n.url, "http://")
		other := t.TempDir()
		err := node.Run(context.Background(), node.Config{Data: other, Listen: addr})
		if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "choose another") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(filepath.Join(other, "holdfast.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it made a database before it had the port: %v", err)
		}
	})
	t.Run("it stops clean and leaves no goroutine", func(t *testing.T) {
		if err := n.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		wantGoroutines(t, before+1) // with this subtest's own
	})
	t.Run("the next one finds the job", func(t *testing.T) {
		again := start(t, node.Config{Data: dir})
		if got := again.post("/v1/claims", `{"queues":["mail"]}`); !bytes.Contains(got.body, []byte(`"id":"1"`)) {
			t.Errorf("got %s", got.body)
		}
	})
}

// wantGoroutines waits until no more goroutines run than before: those of the
// runtime's own network code end a moment after the call.
func wantGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	stacks := make([]byte, 64<<10)
	t.Errorf("got %d goroutines, want %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}

func TestRunRefusesData(t *testing.T) {
	database := func(statement string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want error
	}{
		{"a file that is no database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("hello "), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}, queue.ErrForeignFile},
		{"the database of another program", database("create table users (name text)"), queue.ErrForeignFile},
		{"a database of a newer version", func(t *testing.T, path string) {
			if err := start(t, node.Config{Data: filepath.Dir(path)}).stop(); err != nil {
				t.Fatal(err)
			}
			database("pragma user_version = 9999")(t, path)
		}, queue.ErrNewerSchema},
	}
	for _, tt := range tests {
		t.Run(tt.name+" is refused and left alone", func(t *testing.T) {
			before := runtime.NumGoroutine()
			dir := t.TempDir()
			path := filepath.Join(dir, "holdfast.db")
			tt.make(t, path)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			err = node.Run(context.Background(), node.Config{Data: dir, Listen: "127.0.0.1:0"})
			if !errors.Is(err, node.ErrRefused) || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v with the path", err, tt.want)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
				t.Errorf("the file was changed (%v)", err)
			}
			wantGoroutines(t, before)
		})
	}
	t.Run("a bad configuration is told before anything is made", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		err := node.Run(context.Background(), node.Config{Data: dir, Listen: "0.0.0.0:7780"})
		var config *node.ConfigError
		if !errors.As(err, &config) || !strings.Contains(err.Error(), "beyond loopback") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stat: %v", err)
		}
	})
	t.Run("a data directory that is a file is an error", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := node.Run(context.Background(), node.Config{Data: path, Listen: "127.0.0.1:0"}); err == nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestStopAnswersWaitingClaims(t *testing.T) {
	before := runtime.NumGoroutine()
	n := start(t, node.Config{})
	var g errgroup.Group
	for range 3 {
		g.Go(func() error {
			resp, err := n.client.Post(n.url+"/v1/claims", "", strings.NewReader(`{"queues":["empty"],"wait_ms":60000}`))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			var claims client.Claims
			if err := json.NewDecoder(resp.Body).Decode(&claims); err != nil {
				return err
			}
			if resp.StatusCode != http.StatusOK || claims.Jobs == nil || len(claims.Jobs) != 0 {
				return fmt.Errorf("got %d, %+v", resp.StatusCode, claims)
			}
			return nil
		})
	}
	time.Sleep(200 * time.Millisecond) // they arrive and wait
	began := time.Now()
	if err := n.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	n.client.CloseIdleConnections()
	wantGoroutines(t, before)
}

func TestHungUpClaimLosesNoJob(t *testing.T) {
	n := start(t, node.Config{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"queues":["mail"],"wait_ms":60000}`
	if _, err := fmt.Fprintf(conn, "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // it waits
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	n.post("/v1/jobs", `{"queue":"mail"}`)
	if got := n.post("/v1/claims", `{"queues":["mail"],"wait_ms":5000}`); !bytes.Contains(got.body, []byte(`"id":"1"`)) {
		t.Errorf("got %s", got.body)
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	n := start(t, node.Config{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	n.client.Transport = &http.Transport{Protocols: protocols}
	if got := n.post("/v1/jobs", `{"queue":"mail"}`); got.ProtoMajor != 2 || got.StatusCode != http.StatusCreated {
		t.Errorf("got %s %d: %s", got.Proto, got.StatusCode, got.body)
	}
	if err := n.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestLargeBody(t *testing.T) {
	n := start(t, node.Config{})
	text := `{"queue":"mail","payload":"` + strings.Repeat("x", 17<<20) + `"}`
	for name, body := range map[string]io.Reader{
		"with its length":    strings.NewReader(text),
		"without its length": io.MultiReader(strings.NewReader(text)),
	} {
		t.Run("one sent "+name+" is refused", func(t *testing.T) {
			resp, err := n.client.Post(n.url+"/v1/jobs", "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("got %d, want 413", resp.StatusCode)
			}
		})
	}
}
