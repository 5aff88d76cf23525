package tests_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/tursodatabase/libsql-client-go/libsql" // the driver "libsql"

	"holdfast/node/client"
)

// serveSQL starts a node on dir that serves SQL at the address that it returns.
func serveSQL(t *testing.T, dir string) (n *node, addr string) {
	t.Helper()
	addr = freeAddr(t)
	return serve(t, dir, "--sql-listen", addr), addr
}

// hrana sends requests to a node, and returns its baton and the whole answer.
func hrana(t *testing.T, addr string, baton *string, requests ...string) (next *string, text string) {
	t.Helper()
	list := make([]json.RawMessage, len(requests))
	for i, r := range requests {
		list[i] = json.RawMessage(r)
	}
	body, err := json.Marshal(map[string]any{"baton": baton, "requests": list})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+addr+"/v3/pipeline", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %s, %v", resp.StatusCode, raw, err)
	}
	var answer struct{ Baton *string }
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Baton, string(raw)
}

// TestSQLTransactionOutlivesProcess begins a transaction at one process, kills
// that, and commits at another.
func TestSQLTransactionOutlivesProcess(t *testing.T) {
	dir := t.TempDir()
	n, addr := serveSQL(t, dir)
	baton, _ := hrana(t, addr, nil, `{"type":"execute","stmt":{"sql":"BEGIN"}}`, `{"type":"execute","stmt":{"sql":"select * from node_status"}}`)
	if baton == nil {
		t.Fatal("a transaction has no baton")
	}
	n.kill()
	_, addr = serveSQL(t, dir)
	baton, text := hrana(t, addr, baton, `{"type":"execute","stmt":{"sql":"COMMIT"}}`, `{"type":"get_autocommit"}`)
	if baton != nil || !strings.Contains(text, `"is_autocommit":true`) || strings.Contains(text, "error") {
		t.Errorf("got %s", text)
	}
}

func TestStatusBySQL(t *testing.T) {
	n, addr := serveSQL(t, t.TempDir())
	c, err := client.New(n.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fillQueues(t, c)
	from := "libsql://" + addr
	t.Run("it prints what the node prints", func(t *testing.T) {
		code, bySQL, stderr := n.cli("status", "--json", "--from", from)
		_, byAPI, _ := n.cli("status", "--json")
		var a, b client.Health
		if err := json.Unmarshal([]byte(bySQL), &a); err != nil || code != 0 {
			t.Fatalf("%d, %s, %s, %v", code, bySQL, stderr, err)
		}
		if err := json.Unmarshal([]byte(byAPI), &b); err != nil {
			t.Fatal(err)
		}
		if a.Replication.Seq != b.Replication.Seq || a.Replication.Epoch != b.Replication.Epoch || a.Replication.LagMS == nil {
			t.Errorf("got %+v, want %+v", a.Replication, b.Replication)
		}
		queues := func(h client.Health) string { text, _ := json.Marshal(h.Queues); return string(text) } // plain values
		if queues(a) != queues(b) || len(a.Queues) != 1 {
			t.Errorf("got %s, want %s", queues(a), queues(b))
		}
	})
	t.Run("the table is the same", func(t *testing.T) {
		_, bySQL, _ := n.cli("status", "mail", "--from", from)
		if !strings.HasPrefix(bySQL, from+"  seq 1.") || !strings.Contains(bySQL, "QUEUE  QUEUED") || !strings.Contains(bySQL, "smtp 451") {
			t.Errorf("got %s", bySQL)
		}
	})
	t.Run("an http URL is one of the API", func(t *testing.T) {
		if code, out, stderr := n.cli("status", "--from", n.url, "--url", "http://127.0.0.1:1"); code != 0 || !strings.Contains(out, "mail") {
			t.Errorf("got %d, %s%s", code, out, stderr)
		}
	})
	for _, tt := range []struct {
		outcome string
		args    []string
		code    int
		says    string
	}{
		{"a queue that is not there", []string{"mial", "--from", from}, 3, `no such queue: "mial"; did you mean mail?`},
		{"a node that is not there", []string{"--from", "libsql://127.0.0.1:1"}, 5, "no answer from libsql://127.0.0.1:1"},
		{"a URL without a host", []string{"--from", "libsql:"}, 2, "libsql://edge.example"},
		{"no port where there is no https", []string{"--from", "libsql://localhost"}, 2, "needs a port"},
	} {
		t.Run(tt.outcome+" is told", func(t *testing.T) {
			if code, _, stderr := n.cli(append([]string{"status"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.says) {
				t.Errorf("got %d, %s", code, stderr)
			}
		})
	}
}

func TestSQLAccess(t *testing.T) {
	secret := strings.Repeat("a9", 20)
	addr := freeAddr(t)
	cmd := exec.Command(binary(t), "serve", "--data", t.TempDir(), "--listen", freeAddr(t), "--sql-listen", addr)
	cmd.Env = cleanEnv("HOLDFAST_ADMIN_TOKEN=" + secret)
	n := &node{process: launch(t, cmd), url: "http://" + cmd.Args[5]}
	n.waitReady(20 * time.Second)
	c, err := client.New(n.url, client.Options{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fillQueues(t, c)
	for _, tt := range []struct {
		outcome  string
		scopes   []string
		queues   []string
		payloads int
		says     string // of the error
	}{
		{"view sees no payload", []string{"view"}, nil, 0, ""},
		{"view and payload see payloads", []string{"view", "payload"}, nil, 2, ""},
		{"admin sees payloads", []string{"admin"}, nil, 2, ""},
		{"work alone sees nothing", []string{"work"}, nil, 0, "lacks the scope view"},
		{"a token for some queues sees nothing", []string{"view"}, []string{"mail"}, 0, "for all queues"},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			made, err := c.CreateToken(t.Context(), client.TokenRequest{Name: tt.outcome, Scopes: tt.scopes, Queues: tt.queues})
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("libsql", "http://"+addr+"?authToken="+made.Token)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			payloads := 0
			err = db.QueryRowContext(t.Context(), "select count(payload) from job").Scan(&payloads)
			if payloads != tt.payloads || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %d payloads, %v", payloads, err)
			}
		})
	}
	t.Run("without a token there is nothing", func(t *testing.T) {
		resp, err := http.Post("http://"+addr+"/v2/pipeline", "application/json", strings.NewReader(`{"requests":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %d", resp.StatusCode)
		}
	})
}

// TestStopInterruptsSQL stops a node in the middle of a query that would take
// long.
func TestStopInterruptsSQL(t *testing.T) {
	n, addr := serveSQL(t, t.TempDir())
	const slow = "with t(x) as (values (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) select count(*) from t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l"
	done := make(chan string, 1)
	go func() { // the channel waits for it
		resp, err := http.Post("http://"+addr+"/v2/pipeline", "application/json",
			strings.NewReader(`{"requests":[{"type":"execute","stmt":{"sql":"`+slow+`"}}]}`))
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			text = []byte(err.Error())
		}
		done <- string(text)
	}()
	if code := n.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	select {
	case text := <-done:
		t.Log(text)
	case <-time.After(20 * time.Second):
		t.Error("the query has no answer")
	}
}
