package tests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// browser runs a flow of tests/dashboard/browser.mjs against a node.
func browser(t *testing.T, n *node, flow string, more ...string) {
	t.Helper()
	dir, ok := npmModules(t, "dashboard", "browser.mjs")
	if !ok {
		t.Skip("the npm packages of tests/dashboard are not installed; HOLDFAST_CI=1 installs them")
	}
	needTool(t, "chromium")
	exe, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "browser.mjs", flow)
	cmd.Dir, cmd.Env = dir, append(cleanEnv("URL="+n.url, "CHROMIUM="+exe), more...)
	code, stdout, stderr := run(t, cmd)
	var faults []string
	if err := json.Unmarshal([]byte(stdout), &faults); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// fillPages gives each page something to show. Payloads have the word MARKER.
func fillPages(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	add := func(queue, typ string, n int, more client.Spec) {
		specs := make([]client.Spec, n)
		for i := range specs {
			specs[i] = more
			specs[i].Queue, specs[i].Type = queue, typ
			specs[i].Payload = fmt.Appendf(nil, `{"to":"user%d@example.com","template":"MARKER","locale":"en"}`, i)
		}
		if _, err := c.Enqueue(ctx, specs...); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(queue, worker string, n int) []client.Claimed {
		claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{queue}, Max: n, Worker: worker, LeaseMS: 600_000})
		if err != nil {
			t.Fatal(err)
		}
		return claims.Jobs
	}
	add("mail", "welcome", 60, client.Spec{})
	add("mail", "digest", 12, client.Spec{DelayMS: 3_600_000})
	add("images", "resize", 40, client.Spec{})
	add("billing", "invoice", 25, client.Spec{MaxAttempts: 1})
	for _, job := range claim("mail", "mailer-1:4711:a1b2", 35) {
		if _, err := c.Ack(ctx, client.Ack{Lease: job.Lease, Result: []byte(`{"sent":true}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, job := range claim("billing", "billing-7f9c:12:9e", 25) {
		text := fmt.Sprintf("POST https://pay.example.com/v1/charges: 402 card_declined (request 8f3a%04x)", i)
		if i%3 == 0 {
			text = "json: cannot unmarshal string into Go struct field Invoice.total of type int64\ngoroutine 12 [running]:\nmain.handle()"
		}
		if _, err := c.Fail(ctx, client.Fail{Lease: job.Lease, Error: text}); err != nil {
			t.Fatal(err)
		}
	}
	claim("images", "resizer-1:88:c0", 6)
	claim("images", "resizer-2:91:77", 3)
}

// clientOf returns a client of n.
func clientOf(t *testing.T, n *node, token string) *client.Client {
	t.Helper()
	c, err := client.New(n.url, client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestDashboard(t *testing.T) {
	n := serve(t, filepath.Join(t.TempDir(), "data"))
	fillPages(t, clientOf(t, n, ""))
	t.Run("a failing job is found, grouped, edited, retried and seen done", func(t *testing.T) { browser(t, n, "workbench") })
	t.Run("many jobs are retried at a pace, and stopped", func(t *testing.T) { browser(t, n, "bulk") })
	t.Run("axe finds no serious fault", func(t *testing.T) { browser(t, n, "access") })
	t.Run("screenshots are left", func(t *testing.T) {
		if *shotsFlag == "" {
			t.Skip("-args -shots DIR names the place for them")
		}
		dir, err := filepath.Abs(*shotsFlag)
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		browser(t, n, "shots", "SHOTS="+dir)
	})
}

func TestDashboardLogin(t *testing.T) {
	secret := strings.Repeat("5e", 20)
	cmd := exec.Command(binary(t), "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", freeAddr(t))
	cmd.Env = cleanEnv("HOLDFAST_ADMIN_TOKEN=" + secret)
	n := &node{process: launch(t, cmd), url: "http://" + cmd.Args[5]}
	n.waitReady(20 * time.Second)
	c := clientOf(t, n, secret)
	fillPages(t, c)
	made, err := c.CreateToken(t.Context(), client.TokenRequest{Name: "viewer", Scopes: []string{client.ScopeView}})
	if err != nil {
		t.Fatal(err)
	}
	tokens := "TOKENS=" + secret + "," + made.Token
	t.Run("nobody sees more than the login", func(t *testing.T) { browser(t, n, "login", tokens) })
	t.Run("a viewer changes nothing and sees no payload", func(t *testing.T) { browser(t, n, "viewer", tokens) })
}

func TestDashboardEdge(t *testing.T) {
	s, p := newWatched(t)
	primary := p.serve()
	fillPages(t, clientOf(t, primary, ""))
	edge := newEdgePlace(t, s).serve()
	t.Run("an edge shows the pages, follows, and changes nothing", func(t *testing.T) { browser(t, primary, "edge", "EDGE="+edge.url) })
}
