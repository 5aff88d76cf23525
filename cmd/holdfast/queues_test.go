package main

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/node/client"
)

func TestParseBackoff(t *testing.T) {
	for text, want := range map[string]string{
		"exponential:15s:1h": "{exponential 15000 3600000 []}", "exponential:15s": "{exponential 15000 0 []}", "quadratic:1m": "{quadratic 60000 0 []}",
		"fixed:10s": "{fixed 10000 0 []}", "list:1s,5s,1m": "{list 0 0 [1000 5000 60000]}", "list:0s": "{list 0 0 [0]}", "default": "{ 0 0 []}",
	} {
		if got, err := parseBackoff(text); err != nil || fmt.Sprint(*got) != want {
			t.Errorf("%s: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "fixed", "fixed:", "fixed:10", "fixed:0s", "fixed:1s:2s", "linear:1s", "list:", "list:1s,,2s", "exponential:1s:x"} {
		if got, err := parseBackoff(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestQueuesSet(t *testing.T) {
	s := startNode(t)
	s.enqueue("mail", "1")
	t.Run("shows the settings when none is given", func(t *testing.T) {
		wantText(t, s.ok("queues", "set", "mail"), `max attempts +5 \(default\)\n`, `back-off +exponential from 15s, at most 1h0m0s \(default\)\n`, `keep dead +for ever \(default\)\n`)
	})
	t.Run("changes those that are given, and takes them back", func(t *testing.T) {
		var q client.Queue
		s.read(&q, "queues", "set", "mail", "--lease", "1m", "--keep-last", "dead=5", "--durability", "local")
		if q.Settings.LeaseMS != 60_000 || q.Settings.KeepLast["dead"] != 5 || q.Settings.MaxAttempts != 5 {
			t.Errorf("got %+v", q.Settings)
		}
		wantText(t, s.ok("queues", "set", "mail"), `lease +1m\n`, `timeout +10m \(default\)\n`, `keep dead +for ever, the last 5\n`)
		wantText(t, s.ok("queues"), `SETTINGS\n`, `mail .* lease=1m durability=local keep-last dead=5\n`)
		s.ok("queues", "set", "mail", "--lease", "default", "--keep-last", "dead=default", "--durability", "default")
		wantText(t, s.ok("queues"), `mail .* -\n`)
	})
	t.Run("makes a queue when asked to", func(t *testing.T) {
		wantText(t, s.ok("queues", "set", "new", "--create"), `queue +new\n`)
	})
	for _, tt := range []struct {
		args string
		part string
	}{
		{"--max-attempts many", `--max-attempts: "many" is not a number`},
		{"--max-attempts 0", "--max-attempts: 0 is not from 1"},
		{"--max-attempts 1001", "--max-attempts: must be from 1 to 1000"},
		{"--timeout 0s", "--timeout: 0s is not more than 0"},
		{"--lease 5ms", "--lease: must be from 1s to 1d"},
		{"--backoff slow", "--backoff: "},
		{"--durability forever", "--durability: must be local or replicated"},
		{"--retain done", "--retain: .* is not STATE=VALUE"},
		{"--retain queued=1d", "--retain: .* with one of done, dead, cancelled"},
		{"--retain done=soon", "--retain: done: "},
		{"--retain done=1d --retain done=2d", "--retain: done is given twice"},
		{"--keep-last done=-1", "--keep-last: done: -1 is not from 1"},
	} {
		t.Run("refuses "+tt.args, func(t *testing.T) {
			code, _, stderr := s.run(append([]string{"queues", "set", "mail"}, strings.Fields(tt.args)...)...)
			if code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			wantText(t, stderr, tt.part)
		})
	}
}

func TestDeadInBulk(t *testing.T) {
	s := startNode(t)
	for range 3 {
		s.enqueue("mail", "1")
		s.ok("fail", s.claim("mail").Lease, "--error", "oh", "--fatal")
	}
	for _, tt := range []struct {
		args string
		part string
	}{
		{"dead retry", "say --all"},
		{"dead retry 1 --all", "either named by their ids or selected"},
		{"dead retry 1 --queue mail", "either named"},
		{"dead archive 1 --dry-run", "either named"},
		{"dead retry --all --payload 1", "--payload is for one job"},
		{"dead retry --error oops", "--error: must be an error fingerprint"},
		{"dead retry --before soon", "--before: "},
	} {
		t.Run("refuses "+tt.args, func(t *testing.T) {
			code, _, stderr := s.run(strings.Fields(tt.args)...)
			if code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			wantText(t, stderr, tt.part)
		})
	}
	wantText(t, s.ok("dead", "archive", "--before", "1h", "--dry-run"), "0 jobs would be archived")
	wantText(t, s.ok("archive", "1"), `job 1 in mail is dead \(archived\)`)
	wantText(t, s.ok("dead", "archive", "--since", "1h", "--queue", "mail"), "2 jobs are archived")
	wantText(t, s.ok("delete", "2"), "job 2 is deleted")
	code, stdout, _ := s.run("delete", "2", "3", "--json")
	if code != exitNotFound || !strings.HasPrefix(stdout, `{"deleted":["3"],"errors":[{"id":"2",`) {
		t.Errorf("got %d with %s", code, stdout)
	}
}
