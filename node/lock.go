package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// Names in the data directory.
const (
	lockName     = "holdfast.lock"
	databaseName = "holdfast.db"
)

// DatabasePath is the path of the database of a data directory.
func DatabasePath(data string) string { return filepath.Join(data, databaseName) }

// lockData makes the data directory, which others may not read, and takes its
// lock. The lock lives as long as the process at most: the kernel drops it
// with a killed one. The file itself stays; removing it would let two
// processes lock two files of one name.
func lockData(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	path := filepath.Join(dir, lockName)
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s (its lock is %s); stop that process or choose another directory", ErrLocked, dir, lockName)
	}
	return lock, nil
}

// IsDataFile reports whether a file of this name makes a directory one of
// Holdfast's: a node that ran there left it.
func IsDataFile(name string) bool { return name == lockName || name == databaseName }
