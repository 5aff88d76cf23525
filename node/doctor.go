package node

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/queue"
	"holdfast/replicate"
)

// Check is what [Examine] found of one thing.
type Check struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Found string `json:"found"` // what there is
	Fix   string `json:"fix"`   // what to do; empty when it is ok
}

const examineDir = ".doctor-" // in the data directory, while it is examined

// Examine looks at the data directory of a node that does not run, and changes
// nothing in it: what writes is tried on a copy of the database, for which
// there must be room beside it. It holds the directory's lock meanwhile.
//
// Errors: ErrLocked when a node runs there, ctx.Err().
func Examine(ctx context.Context, data string) ([]Check, error) {
	directory := Check{Name: "data directory", Found: data}
	if info, err := os.Stat(data); err != nil || !info.IsDir() {
		directory.Fix = "there is no such directory; name another with --data, or let holdfast serve make it"
		return []Check{directory}, nil
	}
	lock, err := lockData(data)
	if errors.Is(err, ErrLocked) {
		return nil, err
	}
	if err != nil {
		directory.Fix = fmt.Sprintf("let this user write there (%v)", err)
		return []Check{directory}, nil
	}
	defer lock.Close()
	e := examiner{data: data}
	if err := e.begin(); err != nil {
		directory.Fix = fmt.Sprintf("let this user write there, and free some space (%v)", err)
		return []Check{directory}, nil
	}
	defer os.RemoveAll(e.dir)
	database := e.database(ctx)
	if err := e.err; err != nil && (errors.Is(err, queue.ErrNetworkDisk) || errors.Is(err, queue.ErrDiskFull)) {
		directory.Fix = err.Error()
		if errors.Is(err, queue.ErrDiskFull) {
			directory.Fix = "free some space: new jobs are refused as it is"
		}
	}
	directory.OK = directory.Fix == ""
	return append([]Check{directory}, database...), ctx.Err()
}

// examiner examines a copy.
type examiner struct {
	data string
	dir  string // of the copy
	err  error  // of the disk
}

func (e *examiner) begin() (err error) {
	left, err := filepath.Glob(filepath.Join(e.data, examineDir+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	e.dir, err = os.MkdirTemp(e.data, examineDir)
	return err
}

func (e *examiner) path() string { return filepath.Join(e.dir, databaseName) }

func (e *examiner) database(ctx context.Context) []Check {
	schema := Check{Name: "database", Found: "none yet; the first start makes it"}
	from := DatabasePath(e.data)
	there := true
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		there = false
	}
	if there {
		if err := e.copy(from); err != nil {
			schema.Found, schema.Fix = from, fmt.Sprintf("it could not be copied to be looked at; free as much space as it has (%v)", err)
			return []Check{schema}
		}
		state, err := Inspect(ctx, e.path())
		switch {
		case errors.Is(err, replicate.ErrNoDatabase):
			there = false
		case err != nil && !isRefusal(err):
			schema.Found, schema.Fix = err.Error(), restoreFix
			return []Check{schema}
		case err != nil:
			schema.Found, schema.Fix = from, "start the version that wrote it, or restore the replica into an empty directory: "+err.Error()
			return []Check{schema}
		default:
			schema.Found = fmt.Sprintf("schema %d, epoch %d, seq %d", state.Schema, state.Epoch, state.Seq)
		}
	}
	schema.OK = true
	if !there {
		if err := e.open(ctx, func(*queue.Queue) {}); err != nil && e.err == nil {
			schema.OK, schema.Fix = false, "a new one cannot be made: "+err.Error()
		}
		return []Check{schema}
	}
	return []Check{schema, e.integrity(ctx), e.counters(ctx)}
}

// copy copies the database with its WAL. Nobody writes to it: the lock is ours.
func (e *examiner) copy(from string) error {
	for _, suffix := range []string{"", "-wal"} {
		err := copyFile(from+suffix, e.path()+suffix)
		if err != nil && !(suffix != "" && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

const restoreFix = "the file is damaged: move it away, and start the node with an empty directory, which restores the replica; holdfast replica verify says whether that is whole"

func (e *examiner) integrity(ctx context.Context) Check {
	c := Check{Name: "integrity", Found: "every page is whole"}
	problem, err := quickCheck(ctx, e.path())
	switch {
	case err != nil:
		c.Found, c.Fix = err.Error(), restoreFix
	case problem != "ok":
		c.Found, c.Fix = problem, restoreFix
	}
	c.OK = c.Fix == ""
	return c
}

// quickCheck returns "ok", or the first thing that SQLite found to be wrong.
func quickCheck(ctx context.Context, path string) (found string, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?mode=rw")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, "pragma quick_check(1)").Scan(&found)
	return found, err
}

func (e *examiner) counters(ctx context.Context) Check {
	c := Check{Name: "counters", Found: "every counter is what the rows say"}
	if err := e.open(ctx, func(q *queue.Queue) {
		differences, err := q.Recount(ctx)
		switch {
		case err != nil:
			c.Found, c.Fix = err.Error(), restoreFix
		case len(differences) > 0:
			d := differences[0]
			c.Found = fmt.Sprintf("%d differ from the rows; queue %s counts %d %s jobs and has %d", len(differences), d.Queue, d.Counter, d.State, d.Rows)
			c.Fix = "something else has written to the file; restore an earlier state, or report this as a bug"
		}
	}); err != nil && e.err == nil {
		c.Found, c.Fix = err.Error(), restoreFix
	}
	c.OK = c.Fix == ""
	return c
}

// open opens the copy as a node would, or makes a new database, and notes what
// is wrong with the disk.
func (e *examiner) open(ctx context.Context, use func(*queue.Queue)) (err error) {
	q, err := queue.Open(ctx, e.path(), queue.Options{})
	if err != nil {
		if errors.Is(err, queue.ErrNetworkDisk) || errors.Is(err, queue.ErrDiskFull) {
			e.err = err
		}
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	use(q)
	if _, _, err := q.Enqueue(ctx, queue.Spec{Queue: "doctor"}); errors.Is(err, queue.ErrDiskFull) {
		e.err = err
	}
	return nil
}
