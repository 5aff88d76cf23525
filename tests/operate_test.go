package tests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/node/client"
)

// TestOperate does to a real node what a person does to a queue in trouble: it
// is paused, its settings are changed, all of it is exported, and its dead jobs
// are looked at, put away and retried in bulk. Then the node stops, and the
// doctor looks at what is left.
func TestOperate(t *testing.T) {
	n := serve(t, t.TempDir())
	ok := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := n.cli(args...)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	fails := func(want int, part string, args ...string) {
		t.Helper()
		if code, _, stderr := n.cli(args...); code != want || !strings.Contains(stderr, part) {
			t.Errorf("%s: exit code %d: %s; want %d with %q", args, code, stderr, want, part)
		}
	}
	lease := func() string {
		t.Helper()
		var claims client.Claims
		if err := json.Unmarshal([]byte(ok("claim", "mail", "--json")), &claims); err != nil || len(claims.Jobs) != 1 {
			t.Fatalf("claim: %+v, %v", claims, err)
		}
		return claims.Jobs[0].Lease
	}
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = strings.TrimSpace(ok("enqueue", "mail", `{"n":1}`, "--quiet"))
	}

	wantParts(t, ok("pause", "mail"), "mail is paused", "4 wait")
	wantParts(t, ok("claim", "mail"), "no job is waiting")
	wantParts(t, ok("resume", "mail"), "hands out jobs")

	wantParts(t, ok("queues", "set", "mail", "--max-attempts", "9", "--timeout", "2m", "--backoff", "list:1s,5s", "--max-depth", "4",
		"--retain", "done=1d", "--retain", "dead=forever", "--keep-last", "done=1000"), "9", "2m", "list 1s, 5s", "for 1d, the last 1000")
	wantParts(t, ok("queues"), "max-attempts=9", "retain done=1d")
	fails(1, "queue_full", "enqueue", "mail", "1")
	wantParts(t, ok("queues", "set", "mail", "--max-depth", "default"), "9")
	fails(3, "no such queue", "queues", "set", "nothere", "--timeout", "1m")
	fails(2, "--retain", "queues", "set", "mail", "--retain", "queued=1d")
	fails(2, "--lease", "queues", "set", "mail", "--lease", "5ms")

	wantParts(t, ok("snooze", lease(), "--for", "5m"), "is scheduled for")
	for _, reason := range []string{"smtp 451", "smtp 451", "no such address"} {
		ok("fail", lease(), "--error", reason, "--fatal")
	}
	wantParts(t, ok("get", ids[0], "--wait", "1s"), "scheduled")
	fp := n.job(ids[3]).ErrorFP
	wantParts(t, ok("dead", "list", "--wide"), fp, "no such address")
	wantParts(t, ok("dead", "groups"), fp, "no such address", "smtp 451")

	path := filepath.Join(t.TempDir(), "jobs.ndjson")
	wantParts(t, ok("export", "-o", path), "4 jobs are in")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "\n"); got != 4 {
		t.Errorf("the export has %d lines, want 4", got)
	}
	wantParts(t, string(text), `"payload":{"n":1}`, `"error":"no such address"`)
	fails(2, "is there already", "export", "-o", path)

	fails(2, "--all", "dead", "retry")
	wantParts(t, ok("dead", "archive", "--queue", "mail", "--error", fp), "1 jobs are archived")
	wantParts(t, ok("dead", "retry", "--all", "--dry-run"), "2 jobs would be claimable again")
	wantParts(t, ok("dead", "retry", "--queue", "mail", "--since", "1h", "--rate", "100", "--json"), `{"count":2,"dry_run":false}`)
	if got := n.job(ids[1]).State; got != "queued" {
		t.Errorf("the job is %s, want queued", got)
	}
	wantParts(t, ok("delete", ids[3]), "is deleted")
	fails(3, "no such job", "get", ids[3])

	data := []string{"doctor", "--data", n.dir, "--json"}
	wantChecks(t, ok(data...), "data directory", "node", "replication", "access", "config", "replica")
	if code := n.terminate(); code != 0 {
		t.Fatalf("the node stopped with %d", code)
	}
	wantChecks(t, ok(data...), "data directory", "database", "integrity", "counters", "access", "config", "replica")
	again := launchNode(t, n.dir, freeAddr(t)) // what the doctor did disturbs nothing
	again.waitReady(bootTime * 5)
	if code := again.terminate(); code != 0 {
		t.Fatalf("the node stopped with %d", code)
	}
}

// wantChecks checks that the doctor found all of what it looks at to be right.
func wantChecks(t *testing.T, text string, names ...string) {
	t.Helper()
	var out struct {
		Checks []struct {
			Name string
			OK   bool
			Fix  string
		}
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var got []string
	for _, c := range out.Checks {
		got = append(got, c.Name)
		if !c.OK {
			t.Errorf("%s is not ok: %s", c.Name, c.Fix)
		}
	}
	if strings.Join(got, ", ") != strings.Join(names, ", ") {
		t.Errorf("got the checks %q, want %q", got, names)
	}
}
