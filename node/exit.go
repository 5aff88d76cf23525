package node

import (
	"errors"

	"holdfast/queue"
	"holdfast/replicate"
)

// Errors of Run on which a caller branches.
var (
	// ErrLocked is returned when another process uses the data directory.
	ErrLocked = errors.New("the data directory is in use by another process")
	// ErrRefused is returned when what is in the data directory or in the root
	// of the replica must not be touched by this program: it is of a newer
	// version, not Holdfast's, or not of one history with the rest.
	ErrRefused = errors.New("refused to start")
)

// isRefusal reports whether err says that this program must keep its hands off.
func isRefusal(err error) bool {
	for _, known := range []error{
		ErrRefused, queue.ErrNewerSchema, queue.ErrForeignFile,
		replicate.ErrNoLock, replicate.ErrDiverged, replicate.ErrForeign, replicate.ErrNewer,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
