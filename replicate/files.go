package replicate

import (
	"context"
	"encoding/json"
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

const asideName = "aside" // the folder of the data directory for what was set aside

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

// position reads position.json. It is not synced, for it is written at each
// upload: one that a loss of power left torn says nothing, as one that is missing.
func (f *files) position() (p position, err error) {
	_, err = readJSON(f.positions(), &p)
	var torn *json.SyntaxError
	var other *json.UnmarshalTypeError
	if errors.As(err, &torn) || errors.As(err, &other) {
		return position{}, nil
	}
	return p, err
}

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
	to := filepath.Join(f.dir, asideName, time.Now().UTC().Format("20060102T150405.000"))
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

const (
	// asideKept is how many of the folders stay that a takeover set aside and
	// whose content is in the replica. Each is a copy of the database.
	asideKept = 2
	// replicaHasIt is a file that marks them.
	replicaHasIt = "in-replica"
)

// uploaded reports whether the replica has all that a directory holds: its last
// commit was uploaded by the node that made it.
func (f *files) uploaded(l local) bool {
	at, err := f.position()
	return err == nil && l.hasDB && at.Epoch == l.state.Epoch && at.Seq >= l.state.Seq
}

// pruneAside marks the folder that was set aside last as one that the replica
// has, and deletes those of the kind that were set aside longest ago. What is not
// marked stays for the operator: it may hold what nobody else does.
func (f *files) pruneAside(last string) error {
	if err := os.WriteFile(filepath.Join(last, replicaHasIt), nil, 0o600); err != nil {
		return err
	}
	marked, err := filepath.Glob(filepath.Join(filepath.Dir(last), "*", replicaHasIt)) // by name, which is the time
	for _, mark := range marked[:max(len(marked)-asideKept, 0)] {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(mark)))
	}
	return err
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
