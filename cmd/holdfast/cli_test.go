package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/node/client"
)

// eachFlag calls f for every flag of every command.
func eachFlag(f func(path []string, cmd *cli.Command, flag cli.DocGenerationFlag, name string)) {
	var walk func(path []string, cmds []*cli.Command)
	walk = func(path []string, cmds []*cli.Command) {
		for _, cmd := range cmds {
			path := append(slices.Clone(path), cmd.Name)
			for _, flag := range cmd.Flags {
				f(path, cmd, flag.(cli.DocGenerationFlag), flag.Names()[0])
			}
			walk(path, cmd.Subcommands)
		}
	}
	walk(nil, newApp(nil, io.Discard, io.Discard).Commands)
}

func TestNoCommandIsWrongUsage(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), nil, nil, &stdout, &stderr); code != exitUsage || stdout.Len() > 0 {
		t.Errorf("exit code %d and output %q, want %d and none", code, &stdout, exitUsage)
	}
	wantText(t, stderr.String(), "USAGE:", "enqueue +add a job")
}

func TestNoFlagTakesAnEmptyValue(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	seen := 0
	eachFlag(func(path []string, cmd *cli.Command, flag cli.DocGenerationFlag, name string) {
		if !flag.TakesValue() {
			return
		}
		seen++
		for _, args := range [][]string{{"--" + name, ""}, {"--" + name + "="}} {
			_, err := arrange(app, append(slices.Clone(path), args...))
			if mayBeEmpty(cmd, name) {
				if err != nil {
					t.Errorf("%s %s: got %v, want nil", path, args, err)
				}
			} else if !isA[*usageError](err) || !strings.Contains(err.Error(), "--"+name+" is empty") {
				t.Errorf("%s %s: got %v, want a usage error that names the flag", path, args, err)
			}
		}
	})
	if seen < 40 {
		t.Errorf("%d flags were seen", seen)
	}
}

func TestHelpShowsNoDefaultThatIsNone(t *testing.T) {
	meant := []string{"enqueue priority", "claim wait"}
	ours := []string{"enqueue", "claim", "ack", "fail", "release", "extend", "dead", "get", "list", "status", "work"}
	eachFlag(func(path []string, _ *cli.Command, flag cli.DocGenerationFlag, name string) {
		text := flag.GetDefaultText()
		if (text == "0" || text == "0s") && slices.Contains(ours, path[0]) && !slices.Contains(meant, strings.Join(path, " ")+" "+name) {
			t.Errorf("%s --%s: the default is shown as %s", strings.Join(path, " "), name, text)
		}
	})
	s := &shell{t: t}
	wantText(t, s.ok("enqueue", "--help"), `--timeout value .*\(default: the queue's, 10m\)`, `--max-attempts value .*\(default: the queue's, 5\)`)
}

func TestErrorsAsJSON(t *testing.T) {
	s := startNode(t)
	s.enqueue("mail", "1")
	tests := []struct {
		name    string
		args    []string
		exit    int
		code    client.Code
		message string
	}{
		{"of the API", []string{"get", "99", "--json"}, exitNotFound, client.CodeNotFound, "no such job: 99"},
		{"of the API, about a flag", []string{"--json", "claim", "mail", "--wait", "2m"}, exitUsage, client.CodeInvalid, "--wait: must be from 0s"},
		{"of the command line", []string{"enqueue", "mail", "--prio", "1", "--json"}, exitUsage, client.CodeInvalid, "did you mean --priority"},
		{"of one change", []string{"dead", "retry", "1", "--json=true"}, exitConflict, client.CodeWrongState, "job 1 is queued"},
		{"of a node that is not there", []string{"status", "--json", "--url", "http://127.0.0.1:1"}, exitUnreachable, "unreachable", "no answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := s.run(tt.args...)
			var answer client.ErrorAnswer
			if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
				t.Fatalf("%v in %q", err, stdout)
			}
			if code != tt.exit || answer.Error.Code != tt.code || !strings.Contains(answer.Error.Message, tt.message) {
				t.Errorf("got %d with %+v, want %d with %s and %q", code, answer.Error, tt.exit, tt.code, tt.message)
			}
			wantText(t, stderr, "^holdfast: ")
		})
	}
	t.Run("of some of several changes", func(t *testing.T) {
		code, stdout, stderr := s.run("cancel", "1", "99", "--json")
		var out changed
		if err := json.Unmarshal([]byte(stdout), &out); err != nil {
			t.Fatalf("%v in %q", err, stdout)
		}
		if code != exitNotFound || len(out.Jobs) != 1 || len(out.Errors) != 1 || out.Errors[0].ID != "99" || out.Errors[0].Error.Code != client.CodeNotFound {
			t.Errorf("got %d with %s", code, stdout)
		}
		wantText(t, stderr, "^holdfast: cancel: no such job: 99")
	})
	t.Run("of an item is told once", func(t *testing.T) {
		code, stdout, _ := s.run("ack", "1.1.1.x", "--json")
		var out client.Results
		if err := json.Unmarshal([]byte(stdout), &out); err != nil || code != exitConflict || len(out.Results) != 1 || out.Results[0].Error == nil {
			t.Errorf("got %d with %s, %v", code, stdout, err)
		}
	})
	t.Run("not after --", func(t *testing.T) {
		if _, stdout, _ := s.run("get", "--", "--json"); stdout != "" {
			t.Errorf("got %q", stdout)
		}
	})
}

func TestQueueAsFlagOrArgument(t *testing.T) {
	s := startNode(t)
	s.enqueue("a", "1")
	s.enqueue("--queue", "b", "2")
	if got := s.ok("enqueue", "-q", "b", "--quiet"); got != "3\n" {
		t.Errorf("quiet: got %q, want the id alone", got)
	}
	for _, args := range [][]string{{"list", "b"}, {"list", "--queue", "b"}} {
		var jobs client.Jobs
		s.read(&jobs, args...)
		if len(jobs.Jobs) != 2 || jobs.Jobs[0].Queue != "b" {
			t.Errorf("%s: got %+v", args, jobs.Jobs)
		}
	}
	for _, args := range [][]string{{"status", "a"}, {"status", "-q", "a"}} {
		var health client.Health
		s.read(&health, args...)
		if len(health.Queues) != 1 || health.Queues[0].Name != "a" {
			t.Errorf("%s: got %+v", args, health.Queues)
		}
	}
	wantText(t, s.ok("dead", "list", "a"), "^ID +QUEUE")
	wantText(t, s.ok("claim", "b"), ` b +default +1/5 `)
}

func TestListOfSeveralStates(t *testing.T) {
	s := startNode(t)
	for range 3 {
		s.enqueue("q", `{"n":1}`)
		s.enqueue("q", `{"n":2}`, "--delay", "1h")
	}
	ids := func(jobs client.Jobs) (out []string) {
		for _, j := range jobs.Jobs {
			out = append(out, j.State+" "+j.ID)
		}
		return out
	}
	want := []string{"scheduled 2", "scheduled 4", "scheduled 6", "queued 1", "queued 3", "queued 5"}
	t.Run("one after the other, whatever their case", func(t *testing.T) {
		var all client.Jobs
		s.read(&all, "list", "-s", "Scheduled, DEAD,queued")
		if got := ids(all); !slices.Equal(got, want) || all.Next != nil {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	for limit := 1; limit <= 4; limit++ {
		t.Run(fmt.Sprintf("in pages of %d", limit), func(t *testing.T) {
			var got []string
			args := []string{"list", "--state", "scheduled,queued", "--limit", fmt.Sprint(limit)}
			for range 7 {
				var page client.Jobs
				s.read(&page, args...)
				got = append(got, ids(page)...)
				if page.Next == nil {
					break
				}
				args = append(args[:5:5], "--after", *page.Next)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("not from the cursor of another list", func(t *testing.T) {
		if code, _, stderr := s.run("list", "--state", "scheduled,queued", "--after", "dead:1"); code != exitUsage {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	t.Run("with payloads when asked", func(t *testing.T) {
		var jobs client.Jobs
		if s.read(&jobs, "list", "--payload"); string(jobs.Jobs[0].Payload) != `{"n":2}` {
			t.Errorf("got %s", jobs.Jobs[0].Payload)
		}
		wantText(t, s.ok("list", "--payload"), "PAYLOAD\n", `{"n":2}\n`)
	})
}

func TestGetTellsAnErrorThatIsOver(t *testing.T) {
	s := startNode(t)
	id := s.enqueue("q").ID
	s.ok("fail", s.claim("q").Lease, "--error", "oh", "--retry-in", "0s")
	wantText(t, s.ok("get", id), `\ntries +1/5\n`, `\nlast error +oh\n`)
	lease := s.claim("q").Lease
	wantText(t, s.ok("get", id), `\ntries +2/5\n`, `\nlast error +oh\n`)
	s.ok("ack", lease)
	wantText(t, s.ok("get", id), `\ntries +2/5\n`, `\nlast error \(before\) +oh\n`)
	t.Run("and one that a retry by hand left behind", func(t *testing.T) {
		id := s.enqueue("q").ID
		s.ok("fail", s.claim("q").Lease, "--error", "oh", "--fatal")
		wantText(t, s.ok("get", id), `\nlast error +oh\n`)
		s.ok("dead", "retry", id)
		wantText(t, s.ok("get", id), `\ntries +0/5\n`, `\nlast error \(before\) +oh\n`)
	})
}

func TestClaimThatIsCutShort(t *testing.T) {
	t.Run("by the person who waits", func(t *testing.T) {
		s := startNode(t)
		ctx, interrupt := context.WithCancel(t.Context())
		defer time.AfterFunc(300*time.Millisecond, interrupt).Stop()
		var stderr bytes.Buffer
		if code := run(ctx, []string{"claim", "q", "--wait", "20s", "--url", s.url}, nil, io.Discard, &stderr); code != exitInterrupted {
			t.Errorf("exit code %d: %s", code, &stderr)
		}
		if got, want := stderr.String(), "holdfast: interrupted\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("by the node that stops", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jobs":[],"stopping":true}`)
		}))
		defer server.Close()
		code, _, stderr := (&shell{t: t, url: server.URL}).run("claim", "q", "--wait", "20s")
		if code != exitUnreachable {
			t.Errorf("exit code %d, want %d", code, exitUnreachable)
		}
		wantText(t, stderr, "it is stopping")
	})
}

func TestEmptyURLOfTheEnvironmentIsNone(t *testing.T) {
	s := &shell{t: t} // HOLDFAST_URL is empty then
	if code, _, stderr := s.run("status"); strings.Contains(stderr, "--url: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestReplicationText(t *testing.T) {
	seq, lag := int64(40), int64(1200)
	for want, r := range map[string]client.Replication{
		"seq 3.42":                            {Epoch: 3, Seq: 42},
		"seq 3.42  replicated 3.40  lag 1.2s": {Epoch: 3, Seq: 42, ReplicatedSeq: &seq, LagMS: &lag},
	} {
		if got := replicationText(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, berlin)
	for text, want := range map[string]time.Time{
		"2026-12-24T18:00:00Z":      time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24T18:00:00+02:00": time.Date(2026, 12, 24, 16, 0, 0, 0, time.UTC),
		"2026-12-24":                time.Date(2026, 12, 24, 0, 0, 0, 0, berlin),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "tomorrow", "2026-13-01", "12:00"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

func TestSpan(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "5s": 5 * time.Second, "1m": time.Minute, "1m30s": 90 * time.Second, "2h": 2 * time.Hour, "2h0m1s": 2*time.Hour + time.Second,
		"3d": 72 * time.Hour, "3d1h": 73 * time.Hour, "3d5m": 72*time.Hour + 5*time.Minute, "-1d": -24 * time.Hour, "250ms": 250 * time.Millisecond,
		"10m": 10 * time.Minute, "20h": 20 * time.Hour,
	} {
		if got := span(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func FuzzParseSpan(f *testing.F) {
	for _, text := range []string{"5", "5s", "3d", "-3d", "1d12h", "0.5d", "1.5.5d", "d", "999999d", "1us", "3dd", "1h3d", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseSpan(text)
		if err != nil {
			return
		}
		if d != 0 && d.Abs() < time.Millisecond {
			t.Errorf("%q: got %s", text, d)
		}
		whole := d.Round(time.Millisecond)
		if back, err := parseSpan(span(whole)); err != nil || back != whole {
			t.Errorf("%q is %s, written %s and read as %s, %v", text, whole, span(whole), back, err)
		}
	})
}

func TestExitCode(t *testing.T) {
	wrapped := func(err error) error { return fmt.Errorf("claim: %w", err) }
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"success", nil, exitOK},
		{"a configuration that is wrong", wrapped(node.Config{}.Validate()), exitUsage},
		{"a directory in use", wrapped(node.ErrLocked), exitConflict},
		{"data of another program", wrapped(node.ErrRefused), exitRefused},
		{"anything", errors.New("port taken"), exitFailed},
		{"several", errors.Join(wrapped(client.ErrLeaseLost), errors.New("print")), exitConflict},
		{"a full disk", wrapped(client.ErrDiskFull), exitFailed},
		{"a full queue", wrapped(client.ErrQueueFull), exitFailed},
		{"an outcome that is not known", wrapped(client.ErrUnknownOutcome), exitUnreachable},
		{"an interrupt", wrapped(context.Canceled), exitInterrupted},
		{"what JSON told", &printedError{wrapped(client.ErrNotFound)}, exitNotFound},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

// leaves are the commands that do something, by how they are called.
func leaves(cmds []*cli.Command, path string) map[string]*cli.Command {
	out := map[string]*cli.Command{}
	for _, cmd := range cmds {
		at := strings.TrimSpace(path + " " + cmd.Name)
		if cmd.Action != nil {
			out[at] = cmd
		}
		maps.Copy(out, leaves(cmd.Subcommands, at))
	}
	return out
}

func TestEveryCommandIsExplained(t *testing.T) {
	for path, cmd := range leaves(commands(), "") {
		if cmd.Usage == "" || !strings.Contains(cmd.Description, "xample") {
			t.Errorf("%s has no help with an example", path)
		}
		for _, f := range cmd.Flags {
			if doc, ok := f.(cli.DocGenerationFlag); ok && doc.GetUsage() == "" {
				t.Errorf("%s --%s is not explained", path, f.Names()[0])
			}
		}
		runs := path == "serve" || path == "edge" || path == "work" || strings.HasPrefix(path, "completion ")
		if !runs && find(cmd.Flags, "json") == nil {
			t.Errorf("%s has no --json", path)
		}
	}
}

func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		name  string
		words []string
		want  string
	}{
		{"a part of a command", []string{".res"}, "resume restore"},
		{"nothing yet", []string{"dead", "."}, "list groups retry archive"},
		{"flags of a command", []string{"claim", "mail", ".--w"}, "--wait --worker"},
		{"flags before a command", []string{".--da"}, "--data"},
		{"what a flag may be", []string{"list", "--state", ".d"}, "done dead"},
		{"a value after bash's equals sign", []string{"list", "--state", "=", ".q"}, "queued"},
		{"a global flag takes its value along", []string{"--url", "http://a", "dea", "."}, ""},
		{"and the command comes after it", []string{"--url", "http://a", ".dea"}, "dead"},
		{"a file may be meant", []string{"serve", "--config", "."}, ""},
		{"nothing of ours follows --", []string{"work", "q", "--", ".--"}, ""},
		{"help of a command", []string{"help", ".enq"}, "enqueue"},
		{"the hidden is not told", []string{".__"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(t.Context(), append([]string{"__complete"}, tt.words...), nil, &out, io.Discard); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				name, _, _ := strings.Cut(line, "\t")
				got = append(got, name)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("each script asks for it", func(t *testing.T) {
		for _, shell := range shells {
			var out bytes.Buffer
			if code := run(t.Context(), []string{"completion", shell.name}, nil, &out, io.Discard); code != exitOK || !strings.Contains(out.String(), " __complete ") {
				t.Errorf("%s: exit code %d: %s", shell.name, code, out.String())
			}
		}
	})
}
