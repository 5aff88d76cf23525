package node

import (
	"errors"

	"holdfast/queue"
)

// Errors of Run on which a caller branches.
var (
	// ErrLocked is returned when another process uses the data directory.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrRefused is returned when what is in the data directory must not be
	// touched by this program: it is of a newer version, or not Holdfast's.
	ErrRefused = errors.New("refused to start")
)

// The process exit codes that Run's errors map to.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitLocked  = 4
	exitRefused = 6
)

// ExitCode returns the exit code of a process that ends with err, an error of
// Run: 0 for nil, 2 for a bad configuration, 4 for a locked directory, 6 for
// refused data, 1 for the rest.
func ExitCode(err error) int {
	var config *ConfigError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &config):
		return exitUsage
	case errors.Is(err, ErrLocked):
		return exitLocked
	case isRefusal(err):
		return exitRefused
	}
	return exitFailed
}

func isRefusal(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, queue.ErrNewerSchema) || errors.Is(err, queue.ErrForeignFile)
}
