package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestArrange(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	tests := []struct {
		name string
		args string // separated by blanks
		want string
	}{
		{"flags after the arguments move in front", "enqueue mail {} --priority 5", "enqueue --priority=5 -- mail {}"},
		{"flags before the command move to it", "--json enqueue --priority 5 mail", "enqueue --json --priority=5 -- mail"},
		{"flags among the arguments too", "enqueue mail --json {}", "enqueue --json -- mail {}"},
		{"a command's own flag may stand before it", "--queue mail claim --max 2", "claim --queue=mail --max=2"},
		{"a value may follow =", "enqueue --priority=5 mail", "enqueue --priority=5 -- mail"},
		{"a value may be a negative number", "enqueue mail --priority -5", "enqueue --priority=-5 -- mail"},
		{"a value may be a lone -", "ack L --result -", "ack --result=- -- L"},
		{"a value may have an = of its own", "enqueue mail --tag a=b", "enqueue --tag=a=b -- mail"},
		{"a short name works", "claim -q mail", "claim --q=mail"},
		{"one dash works", "claim -queue mail", "claim --queue=mail"},
		{"a switch takes no value", "fail --fatal L --error e", "fail --fatal --error=e -- L"},
		{"a switch may be turned off", "status --json=false", "status --json=false"},
		{"a lone - is an argument", "enqueue mail - --json", "enqueue --json -- mail -"},
		{"after -- all is argument", "enqueue --json -- mail -5 --json", "enqueue --json -- mail -5 --json"},
		{"the handler's flags are its own", "work --queue q -- ./h --queue x", "work --queue=q -- ./h --queue x"},
		{"queues may stand before the handler", "work a -c 2 b -- ./h x", "work --c=2 --queue=a --queue=b -- ./h x"},
		{"a value may have days", "enqueue mail --delay 3d --timeout 1d12h", "enqueue --delay=72h0m0s --timeout=36h0m0s -- mail"},
		{"days may be a fraction or negative", "enqueue --delay 0.5d --timeout -1d1h", "enqueue --delay=12h0m0s --timeout=-25h0m0s"},
		{"no duration needs no unit", "claim q --wait 0", "claim --wait=0s -- q"},
		{"a command has commands", "dead --json list --queue mail", "dead list --json --queue=mail"},
		{"flags may stand in front of all", "--json dead retry 7 8", "dead retry --json -- 7 8"},
		{"a repeated flag stays repeated", "claim --queue a --queue b", "claim --queue=a --queue=b"},
		{"help is asked anywhere", "enqueue mail --help", "enqueue --help"},
		{"help as a command", "help dead list", "dead list --help"},
		{"help alone", "--help", "--help"},
		{"--version is the command", "--version --json", "version --json"},
		{"nothing is nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := arrange(app, strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Fields(tt.want); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestArrangeRefuses(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	tests := []struct {
		name string
		args string
		want string // in the message
	}{
		{"a command that is misspelled", "enqeue mail", `"enqeue" is no command; did you mean enqueue?`},
		{"a command that is like no other", "frobnicate", "--help lists them"},
		{"a command of dead that is misspelled", "dead lits", "did you mean list?"},
		{"dead alone", "dead", "dead needs one of list, groups, retry"},
		{"flags alone", "--json", "no command is given"},
		{"a flag that is misspelled", "enqueue mail --priorty 5", "did you mean --priority?"},
		{"a flag that is cut short", "enqueue mail --prio 5", "did you mean --priority?"},
		{"a flag of another command", "status --priority 5", "status has no flag --priority"},
		{"a global flag that does not apply", "--data x enqueue mail", "enqueue has no flag --data"},
		{"a flag before the command that is misspelled", "--ulr x status", "did you mean --url?"},
		{"a negative number as an argument", "enqueue mail -5", "goes after --"},
		{"a flag without its value", "enqueue mail --key", "flag --key needs a value"},
		{"a flag that would swallow the next", "fail L --error --fatal", "write --error=--fatal"},
		{"three dashes", "status ---json", "no flag ---json"},
		{"the handler's flags without --", "work --queue q ./h -x", "put -- before the command"},
		{"the handler's flags without --, which are ours too", "work -q q sh -c exit", "put -- before the command"},
		{"a handler without --", "work q cat", "put -- before the command"},
		{"a duration without a unit", "enqueue mail --delay 5", `--delay: "5": write a duration such as 5s, 5m, 2h or 3d`},
		{"a duration that is none", "claim mail --wait soon", "--wait: "},
		{"a duration of days that is none", "claim mail --wait 1.2.3d", "write a duration"},
		{"a duration that does not fit", "enqueue mail --delay 300000d", "longer than can be said"},
		{"a duration that the API cannot say", "claim mail --wait 10us", "shorter than a millisecond"},
		{"a word for a number, by its short name", "enqueue mail -p abc", `--priority: "abc" is not a number`},
		{"a fraction for a number", "claim mail --max 1.5", "--max: 1.5 is not a whole number"},
		{"a switch that is neither on nor off", "status --json=maybe", `--json: "maybe" is neither true nor false`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := arrange(app, strings.Fields(tt.args))
			var usage *usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v, want a usage error with %q", got, err, tt.want)
			}
		})
	}
}
