package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrNoDatabase is returned by Options.Inspect for a file that holds no
// database yet, as one does that was left by an application killed while it
// made it. It counts as no file.
var ErrNoDatabase = errors.New("the file holds no database")

// State is what a database says of itself.
type State struct {
	Lineage string
	Epoch   int64
	Seq     int64
	Schema  int
}

// files are those of a data directory.
type files struct {
	dir     string
	db      string // the database
	inspect func(ctx context.Context, path string) (State, error)
}

func (f *files) node() string      { return filepath.Join(f.dir, nodeFileName) }
func (f *files) positions() string { return filepath.Join(f.dir, positionsName) }

// meta is where Litestream keeps its local files of an epoch.
func (f *files) meta(epoch int64) string { return filepath.Join(f.dir, "ltx", prefixOf(epoch)) }

// present reports whether there is a database; an empty file is none.
func (f *files) present() (bool, error) {
	info, err := os.Stat(f.db)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() > 0, err
}

// local is what a data directory holds, as far as it can be told.
type local struct {
	node    nodeFile
	hasNode bool
	hasDB   bool
	state   State // of the database
	same    bool  // the directory is surely the one that wrote node.json, and the machine did not restart
}

func (f *files) read(ctx context.Context) (l local, err error) {
	if l.hasNode, err = readJSON(f.node(), &l.node); err != nil {
		return l, err
	}
	if l.hasDB, err = f.present(); err != nil {
		return l, err
	}
	boot, inode := bootID(), inodeOf(f.dir)
	l.same = l.hasNode && boot != "" && l.node.BootID == boot && inode != "" && l.node.Inode == inode
	if !l.hasDB {
		return l, nil
	}
	switch l.state, err = f.inspect(ctx, f.db); {
	case errors.Is(err, ErrNoDatabase):
		l.hasDB, l.state = false, State{}
	case err != nil:
		return l, fmt.Errorf("look at %s: %w", f.db, err)
	}
	return l, nil
}

// addSession records a session that is about to be sent, and nothing else: not
// even that this directory is on this machine, which is for the one that the
// root is given to.
func (f *files) addSession(n *nodeFile, session string) error {
	n.add(session)
	return f.saveNode(*n)
}

// writeNode writes node.json for this directory on this machine.
func (f *files) writeNode(n nodeFile) error {
	n.BootID, n.Inode = bootID(), inodeOf(f.dir)
	return f.saveNode(n)
}

func (f *files) saveNode(n nodeFile) error {
	if err := writeJSON(f.node(), n, true); err != nil {
		return fmt.Errorf("write node.json: %w", err)
	}
	return nil
}

// setAside moves everything that belongs to the database into a folder of its
// own, all together: what is left beside a restored file, a WAL above all, would
// change it. It returns the folder, or "" when there was nothing.
func (f *files) setAside() (string, error) {
	names := []string{
		filepath.Base(f.db), filepath.Base(f.db) + "-wal", filepath.Base(f.db) + "-shm", filepath.Base(f.db) + "-txid",
		"ltx", nodeFileName, positionsName,
	}
	to := filepath.Join(f.dir, "aside", time.Now().UTC().Format("20060102T150405.000"))
	moved := ""
	for _, name := range names {
		from := filepath.Join(f.dir, name)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if moved == "" {
			if err := os.MkdirAll(to, 0o700); err != nil {
				return "", fmt.Errorf("set aside: %w", err)
			}
			moved = to
		}
		if err := os.Rename(from, filepath.Join(to, name)); err != nil {
			return moved, fmt.Errorf("set aside: %w", err)
		}
	}
	if moved == "" {
		return "", nil
	}
	return moved, errors.Join(syncDir(to), syncDir(f.dir))
}

// forgetMeta deletes Litestream's local files of all epochs but one.
func (f *files) forgetMeta(keep int64) error {
	entries, err := os.ReadDir(filepath.Join(f.dir, "ltx"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != prefixOf(keep) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(f.dir, "ltx", e.Name())))
		}
	}
	return err
}
