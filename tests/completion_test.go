package tests_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCompletion lets the shells themselves complete. PowerShell, which Debian
// does not have, is not among them.
func TestCompletion(t *testing.T) {
	shells := map[string]struct {
		command []string
		script  string
	}{
		"bash": {[]string{"bash", "--norc", "-euc"}, `
source <(holdfast completion bash)
try() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _holdfast; echo "${COMPREPLY[*]}"; }
complete -p holdfast >/dev/null
try holdfast enq
try holdfast dead re
try holdfast list --state = q
try holdfast snooze --f
try holdfast work q -- s
try holdfast completion fi
`},
		"fish": {[]string{"fish", "--no-config", "-c"}, `
holdfast completion fish | source
function try; set -l found (complete -C "$argv" | string replace -r '\t.*' ''); echo "$found"; end
try 'holdfast enq'
try 'holdfast dead re'
try 'holdfast list --state q'
try 'holdfast snooze --f'
try 'holdfast work q -- nosuchfile'
try 'holdfast completion fi'
`},
	}
	want := "enqueue\nretry\nqueued\n--for\n\nfish\n"
	for name, shell := range shells {
		t.Run(name+" completes commands, flags and values", func(t *testing.T) {
			got := inShell(t, append(shell.command, shell.script))
			if got != want {
				t.Errorf("got\n%q, want\n%q", got, want)
			}
		})
	}
	t.Run("zsh completes at its prompt", func(t *testing.T) {
		got := inShell(t, []string{"zsh", "-f", "-c", `
zmodload zsh/zpty
zpty -b term 'TERM=dumb zsh -f -i'
zpty -w term 'PS1=; autoload -Uz compinit; compinit -D -u; source <(holdfast completion zsh); print READY=$((1+1))'
zpty -r term out '*READY=2*'
zpty -w -n term $'\C-uholdfast enq\t'
zpty -r term out '*holdfast enqueue *'; print enqueue
zpty -w -n term $'\C-uholdfast dead ret\t'
zpty -r term out '*holdfast dead retry *'; print retry
zpty -w -n term $'\C-uholdfast snooze --fo\t'
zpty -r term out '*holdfast snooze --for *'; print -- --for
zpty -d term
`})
		if want := "enqueue\nretry\n--for\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// inShell runs a command that finds holdfast in its path, and returns what it
// prints.
func inShell(t *testing.T, command []string) string {
	t.Helper()
	needTool(t, command[0])
	exe := binary(t) // first: to build it may take long
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = cleanEnv("HOME="+cmd.Dir, "PATH="+filepath.Dir(exe)+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s%s", command[0], err, out, errs.String())
	}
	return string(out)
}
