package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"holdfast/node"
)

// arrange puts a command line into the order that the cli package understands,
// which stops looking for flags at the first argument: the command, then its
// flags as --name=value, then "--" and the arguments.
//
// What looks like a flag and is not one of the command's is an error, never an
// argument, unless it follows "--". A lone "-" is an argument. The values of
// flags are checked and put into one form, see flagValue.
func arrange(app *cli.App, args []string) ([]string, error) {
	l := line{app: app}
	if err := l.read(args); err != nil {
		return nil, err
	}
	var out []string
	for _, cmd := range l.path {
		out = append(out, cmd.Name)
	}
	if l.help {
		return append(out, "--help"), nil
	}
	cmd := l.command()
	if cmd == nil {
		if len(l.flags) > 0 || len(l.args) > 0 {
			return nil, usagef("no command is given; holdfast --help lists them")
		}
		return nil, nil
	}
	if len(cmd.Subcommands) > 0 && cmd.Action == nil {
		return nil, usagef("%s needs one of %s", cmd.Name, strings.Join(names(cmd.Subcommands), ", "))
	}
	if runsCommand(cmd) {
		if err := l.takeQueues(); err != nil {
			return nil, err
		}
	}
	for _, given := range l.flags {
		f := find(cmd.Flags, given.name)
		if f == nil {
			return nil, l.unknownFlag("--" + given.name)
		}
		text, err := given.arrange(cmd, f)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	if len(l.args) > 0 {
		out = append(append(out, "--"), l.args...)
	}
	return out, nil
}

// runsCommand reports whether cmd runs a command of the user's, which stands
// behind "--", so that its flags are not taken for cmd's.
func runsCommand(cmd *cli.Command) bool { return strings.Contains(cmd.ArgsUsage, "-- COMMAND") }

// line is a command line taken apart.
type line struct {
	app   *cli.App
	path  []*cli.Command
	flags []flagGiven
	args  []string
	end   int // how many of args stand before "--"; -1: there is none
	help  bool
}

type flagGiven struct {
	name     string
	value    string
	hasValue bool
}

// arrange returns the flag as --name or --name=value.
func (g flagGiven) arrange(cmd *cli.Command, f cli.DocGenerationFlag) (string, error) {
	if !g.hasValue {
		return "--" + g.name, nil
	}
	value, err := flagValue(cmd, f, g.value)
	return "--" + g.name + "=" + value, err
}

// command is the innermost one so far, or nil.
func (l *line) command() *cli.Command {
	if len(l.path) == 0 {
		return nil
	}
	return l.path[len(l.path)-1]
}

// choices are the commands of which the next argument names one.
func (l *line) choices() []*cli.Command {
	if cmd := l.command(); cmd != nil {
		return cmd.Subcommands
	}
	return l.app.Commands
}

func (l *line) read(args []string) error {
	l.end = -1
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			l.end = len(l.args)
			l.args = append(l.args, args[i+1:]...)
			return nil
		case len(arg) > 1 && arg[0] == '-':
			took, err := l.flag(arg, args[i+1:])
			if cmd := l.command(); err != nil && cmd != nil && runsCommand(cmd) && len(l.args) > 0 && !slices.Contains(args, "--") {
				return l.noDashes() // it is a flag of the user's command
			}
			if err != nil {
				return err
			}
			if took {
				i++
			}
		case len(l.choices()) > 0:
			if err := l.enter(arg); err != nil {
				return err
			}
		default:
			l.args = append(l.args, arg)
		}
	}
	return nil
}

// takeQueues makes flags of what stands before "--" where a command follows it.
func (l *line) takeQueues() error {
	if l.end < 0 && len(l.args) > 0 {
		return l.noDashes()
	}
	if l.end <= 0 {
		return nil
	}
	for _, name := range l.args[:l.end] {
		l.flags = append(l.flags, flagGiven{"queue", name, true})
	}
	l.args = l.args[l.end:]
	return nil
}

func (l *line) noDashes() error {
	return usagef("%s: put -- before the command: %s", l.command().Name, l.command().UsageText)
}

// enter takes the name of a command. "help" asks for the help text of what
// follows.
func (l *line) enter(name string) error {
	if name == "help" {
		l.help = true
		return nil
	}
	for _, cmd := range l.choices() {
		if cmd.HasName(name) {
			l.path = append(l.path, cmd)
			return nil
		}
	}
	known := names(l.choices())
	what, where := "command", "holdfast"
	if cmd := l.command(); cmd != nil {
		what, where = "command of "+cmd.Name, "holdfast "+cmd.Name
	}
	if near := node.Nearest(name, known); near != "" {
		return usagef("%q is no %s; did you mean %s?", name, what, near)
	}
	return usagef("%q is no %s; %s --help lists them", name, what, where)
}

// flag takes a flag, and reports whether it took the next argument as its value.
func (l *line) flag(arg string, next []string) (took bool, err error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	if name == "help" || name == "h" {
		l.help = true
		return false, nil
	}
	if name == "version" && l.command() == nil {
		return false, l.enter("version")
	}
	f := l.known(name)
	if f == nil {
		return false, l.unknownFlag(arg)
	}
	if f.TakesValue() && !hasValue {
		if len(next) == 0 {
			return false, usagef("flag --%s needs a value", name)
		}
		if other, _, _ := strings.Cut(next[0], "="); strings.HasPrefix(other, "--") && l.known(other[2:]) != nil {
			return false, usagef("flag --%s needs a value, and %s is a flag; write --%s=%s if you mean it", name, other, name, next[0])
		}
		value, hasValue, took = next[0], true, true
	}
	l.flags = append(l.flags, flagGiven{name, value, hasValue})
	return took, nil
}

// known finds a flag by name: a global one, one of the command or, as long as
// the command is open, one of any command that may follow.
func (l *line) known(name string) cli.DocGenerationFlag {
	if cmd := l.command(); cmd != nil {
		if f := find(cmd.Flags, name); f != nil {
			return f
		}
	}
	if f := find(l.app.Flags, name); f != nil {
		return f
	}
	return findIn(l.choices(), name)
}

func findIn(cmds []*cli.Command, name string) cli.DocGenerationFlag {
	for _, cmd := range cmds {
		if f := find(cmd.Flags, name); f != nil {
			return f
		}
		if f := findIn(cmd.Subcommands, name); f != nil {
			return f
		}
	}
	return nil
}

func find(flags []cli.Flag, name string) cli.DocGenerationFlag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			doc, _ := f.(cli.DocGenerationFlag)
			return doc
		}
	}
	return nil
}

// unknownFlag is the error for arg, with the flag that was probably meant.
func (l *line) unknownFlag(arg string) error {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	cmd := l.command()
	if cmd == nil {
		if near := node.Nearest(name, flagNames(l.app.Flags)); near != "" {
			return usagef("there is no flag %s; did you mean --%s?", arg, near)
		}
		return usagef("there is no flag %s; holdfast --help lists them", arg)
	}
	where := "holdfast"
	for _, cmd := range l.path {
		where += " " + cmd.Name
	}
	if near := node.Nearest(name, flagNames(cmd.Flags)); near != "" {
		return usagef("%s has no flag %s; did you mean --%s?", cmd.Name, arg, near)
	}
	return usagef("%s has no flag %s; %s --help lists its flags, and an argument that begins with - goes after --", cmd.Name, arg, where)
}

func names(cmds []*cli.Command) []string {
	var out []string
	for _, cmd := range cmds {
		if !cmd.Hidden {
			out = append(out, cmd.Name)
		}
	}
	return out
}

func flagNames(flags []cli.Flag) []string {
	out := []string{"help"}
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); !ok || v.IsVisible() {
			out = append(out, f.Names()[0])
		}
	}
	return out
}
