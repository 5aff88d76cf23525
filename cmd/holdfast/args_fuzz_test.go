package main

import (
	"io"
	"strings"
	"testing"
)

// FuzzCommandLine arranges any command line, and completes it: what is no usage
// error begins with a command and has its arguments behind "--".
func FuzzCommandLine(f *testing.F) {
	for _, seed := range []string{
		"enqueue mail {} --type t -p 5", "--url http://a list --state=dead", "work q -- sh -c --", "dead retry 7 --all", "help claim", "status --jsno",
		"enqueue -- -x", "snooze L --for", "--", "-", "config show --origin=true", "work --queue a --", "completion bash", "--data= serve",
	} {
		f.Add(seed)
	}
	app := newApp(strings.NewReader(""), io.Discard, io.Discard)
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, " ")
		complete(app, append(words, "."), io.Discard)
		out, err := arrange(app, words)
		if err != nil {
			if !isA[*usageError](err) {
				t.Errorf("%q: got %v", text, err)
			}
			return
		}
		if len(out) > 0 && !strings.HasPrefix(out[0], "--") && findCommand(out[0]) == nil {
			t.Errorf("%q became %q", text, out)
		}
		for _, word := range out {
			if word == "--" {
				break
			}
			if strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") {
				t.Errorf("%q became %q", text, out)
			}
		}
	})
}

func findCommand(name string) any {
	for _, cmd := range commands() {
		if cmd.HasName(name) {
			return cmd
		}
	}
	return nil
}
