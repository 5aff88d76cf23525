package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// The scripts of completion know nothing of the commands. They ask the program
// itself, by
//
//	holdfast __complete WORDS... .CURRENT
//
// for what the word under the cursor may become: a line each, with a tab and a
// description after it. CURRENT may be empty, which some shells would leave out:
// so it has a dot in front. Nothing is printed where a file may be meant.
const completeCommand = "__complete"

//go:embed shells
var shellScripts embed.FS

// shells are those with a script, and its name.
var shells = []struct{ name, file string }{
	{"bash", "completion.bash"}, {"zsh", "completion.zsh"}, {"fish", "completion.fish"}, {"powershell", "completion.ps1"},
}

func completionCommand() *cli.Command {
	cmd := &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands and flags in a shell",
		Description: "Each script says in its first lines how to load it.\n\nExamples:\n  source <(holdfast completion bash)",
	}
	for _, shell := range shells {
		cmd.Subcommands = append(cmd.Subcommands, &cli.Command{
			Name:        shell.name,
			Usage:       "for " + shell.name,
			Description: "The first lines of the script say how to load it.\n\nExamples:\n  holdfast completion " + shell.name,
			Action: func(c *cli.Context) error {
				if err := wantArgs(c, 0, 0); err != nil {
					return err
				}
				text, err := shellScripts.ReadFile("shells/" + shell.file)
				if err != nil {
					return err
				}
				_, err = c.App.Writer.Write(text)
				return err
			},
		})
	}
	return cmd
}

// complete prints what the last of words may become.
func complete(app *cli.App, words []string, w io.Writer) {
	if len(words) == 0 || !strings.HasPrefix(words[len(words)-1], ".") {
		return
	}
	last := len(words) - 1
	l := line{app: app}
	pending, ok := l.skim(words[:last])
	if !ok {
		return
	}
	current := words[last][1:]
	var found [][2]string
	switch {
	case pending != "":
		found = valuesOf(pending)
	case strings.HasPrefix(current, "-"):
		found = l.completeFlags()
	default:
		for _, cmd := range l.choices() {
			if !cmd.Hidden {
				found = append(found, [2]string{cmd.Name, cmd.Usage})
			}
		}
	}
	for _, candidate := range found {
		if strings.HasPrefix(candidate[0], current) {
			fmt.Fprintf(w, "%s\t%s\n", candidate[0], candidate[1])
		}
	}
}

// skim follows the words before the one to complete. It returns the flag that
// waits for its value, if one does, and false where nothing of ours can follow.
func (l *line) skim(words []string) (pending string, ok bool) {
	for _, word := range words {
		switch {
		case pending != "":
			if word != "=" { // which bash makes a word of its own
				pending = ""
			}
		case word == "--":
			return "", false
		case len(word) > 1 && word[0] == '-':
			name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if f := l.known(name); f != nil && f.TakesValue() && !hasValue {
				pending = name
			}
		case len(l.choices()) > 0 && word != "help":
			i := slices.IndexFunc(l.choices(), func(cmd *cli.Command) bool { return cmd.HasName(word) })
			if i < 0 {
				return "", false
			}
			l.path = append(l.path, l.choices()[i])
		}
	}
	return pending, true
}

// completeFlags are those of the command, or the global ones.
func (l *line) completeFlags() [][2]string {
	flags := l.app.Flags
	if cmd := l.command(); cmd != nil {
		flags = cmd.Flags
	}
	found := [][2]string{{"--help", "show help"}}
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		usage := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			usage = strings.ReplaceAll(doc.GetUsage(), "`", "")
		}
		found = append(found, [2]string{"--" + f.Names()[0], usage})
	}
	return found
}

// valuesOf are the values of a flag that has few.
func valuesOf(flag string) (found [][2]string) {
	var values []string
	switch flag {
	case "state":
		values = []string{"scheduled", "queued", "running", "done", "dead", "cancelled"}
	case "durability":
		values = []string{"local", "replicated", "default"}
	}
	for _, v := range values {
		found = append(found, [2]string{v, ""})
	}
	return found
}
