package replicate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// nodeFile is DIR/node.json: what this directory knows of its place in the
// root. Who owns the root is a session, never a name: Sessions are all that
// this directory has sent to lock.json, each written here and fsynced before
// its swap, so that whatever the swap's fate was, the next boot knows its own.
type nodeFile struct {
	Lineage  string   `json:"lineage"`
	Root     string   `json:"root"`
	Sessions []string `json:"sessions"`
	Epoch    int64    `json:"epoch"`
	BootID   string   `json:"boot_id"` // of the machine's run in which it was written
	Inode    string   `json:"inode"`   // of the directory: a copy has another
	Served   bool     `json:"served"`  // the epoch became ready and served here
	Adopt    bool     `json:"adopt"`   // the file shall be the base of a new epoch, whatever ready holds
}

const (
	nodeFileName  = "node.json"
	sessionsKept  = 64
	positionsName = "position.json"
)

func (n *nodeFile) mine(session string) bool {
	return session != "" && slices.Contains(n.Sessions, session)
}

func (n *nodeFile) add(session string) {
	n.Sessions = append(n.Sessions, session)
	if extra := len(n.Sessions) - sessionsKept; extra > 0 {
		n.Sessions = n.Sessions[extra:]
	}
}

// readJSON reads a small file into v, and reports whether it is there.
func readJSON(path string, v any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	return true, nil
}

// writeJSON replaces a small file, durably if sync is set.
func writeJSON(path string, v any, sync bool) error {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in dir durable. Windows knows no such thing.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// position says how far the database was at a TXID of its replica. It is
// written after each upload, so that a database that was put back alone, without
// the files beside it, is found out.
type position struct {
	Epoch int64  `json:"epoch"`
	TXID  uint64 `json:"txid"`
	Seq   int64  `json:"seq"`
}
