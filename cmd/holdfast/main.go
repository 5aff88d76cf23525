// Command holdfast is the server of a Holdfast node and its command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default is back, so that a second one ends a
	// process that takes too long to stop.
	context.AfterFunc(ctx, stop)
	// What a library has to say by itself; ours are handed their logger.
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process: args are those after the program's name,
// and the result is the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		stdout = stderr // the help text is no answer to anything
	}
	app := newApp(stdin, stdout, stderr)
	if len(args) > 0 && args[0] == completeCommand {
		complete(app, args[1:], stdout)
		return exitOK
	}
	arranged, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{app.Name}, arranged...))
	}
	switch {
	case err == nil && len(args) == 0:
		return exitUsage
	case err == nil:
		return exitOK
	}
	if wantsJSON(args) && !isA[*printedError](err) {
		err = errors.Join(err, printJSON(stdout, client.ErrorAnswer{Error: errorBody(err)}))
	}
	for line := range strings.Lines(errorText(err)) {
		fmt.Fprintf(stderr, "holdfast: %s\n", strings.TrimRight(line, "\n"))
	}
	return exitCode(err)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:      "holdfast",
		Usage:     "a job queue server on SQLite",
		UsageText: "holdfast COMMAND [ARGUMENTS] [FLAGS]",
		Description: "Flags may stand before and after the command and among its arguments.\n" +
			"Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict, 5 unreachable or not ready, 6 refused at boot,\n" +
			"130 interrupted. With --json an error is on standard output too: {\"error\":{\"code\",\"message\"}}.",
		Commands:                  commands(),
		Flags:                     []cli.Flag{dataFlag(), listenFlag(), configFlag(), urlFlag(), tokenFlag(), caFlag(), jsonFlag()},
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		Before:                    prepareEnvironment,
		Reader:                    stdin,
		Writer:                    stdout,
		ErrWriter:                 stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // run turns errors into exit codes
		OnUsageError:              onUsageError,
	}
	prepare(app.Commands)
	return app
}

// commands is the command table, in the order of the help text.
func commands() []*cli.Command {
	return []*cli.Command{
		serveCommand(),
		edgeCommand(),
		initCommand(),
		statusCommand(),
		queuesCommand(),
		pauseCommand(),
		resumeCommand(),
		enqueueCommand(),
		getCommand(),
		listCommand(),
		cancelCommand(),
		deleteCommand(),
		archiveCommand(),
		deadCommand(),
		workCommand(),
		claimCommand(),
		ackCommand(),
		failCommand(),
		releaseCommand(),
		snoozeCommand(),
		extendCommand(),
		eventsCommand(),
		exportCommand(),
		tokenCommand(),
		auditCommand(),
		restoreCommand(),
		replicaCommand(),
		adoptCommand(),
		takeoverCommand(),
		handoverCommand(),
		doctorCommand(),
		costCommand(),
		benchCommand(),
		configCommand(),
		completionCommand(),
		versionCommand(),
	}
}

// prepare sets what every command has in common. A command without commands of
// its own gets no "help" one, which would take the place of its first argument.
func prepare(cmds []*cli.Command) {
	for _, cmd := range cmds {
		cmd.OnUsageError = onUsageError
		cmd.HideHelpCommand = true
		prepare(cmd.Subcommands)
	}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	return usagef("%s: %v", c.Command.Name, err)
}
