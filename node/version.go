package node

import (
	"runtime"

	"holdfast/node/client"
	"holdfast/queue"
)

// Versions tells what a program of the given version and commit is made of.
func Versions(version, commit string) client.Version {
	return client.Version{
		Version: version,
		Commit:  commit,
		Go:      runtime.Version(),
		SQLite:  queue.SQLiteVersion(),
		Schema:  queue.Schema(),
	}
}
