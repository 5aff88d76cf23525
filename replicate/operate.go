package replicate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// What an operator does to a root, without a node.

// Init begins a new, empty root. Errors: ErrExists, a *RemoteError.
func Init(ctx context.Context, r Replica, log *slog.Logger) (Lock, error) {
	s, err := openStore(ctx, r, log)
	if err != nil {
		return Lock{}, err
	}
	defer s.close()
	now, err := swap(ctx, s, held{}, Lock{Lineage: newID()})
	if errors.Is(err, errCondition) {
		return Lock{}, fmt.Errorf("%w: %s", ErrExists, s.url())
	}
	return now.Lock, err
}

// ReadLock returns a root's lock.json. Errors: ErrNoLock, ErrNewer, a *RemoteError.
func ReadLock(ctx context.Context, r Replica, log *slog.Logger) (Lock, error) {
	s, err := openStoreToRead(ctx, r, log)
	if err != nil {
		return Lock{}, err
	}
	defer s.close()
	h, err := readLock(ctx, s)
	return h.Lock, err
}

// TakeOver gives a root up in the name of the node that holds it, so that
// another may take it at its next start. The holder, if it lives, finds out
// before it uploads again, and stops; what it acknowledges until then is lost.
func TakeOver(ctx context.Context, r Replica, log *slog.Logger) (Lock, error) {
	s, err := openStore(ctx, r, log)
	if err != nil {
		return Lock{}, err
	}
	defer s.close()
	h, err := readLock(ctx, s)
	if err != nil {
		return Lock{}, err
	}
	if h.Closed || h.Session == "" {
		return h.Lock, nil
	}
	next := h.Lock
	next.Closed, next.TXID, next.Session = true, 0, newID()
	now, err := swap(ctx, s, h, next)
	return now.Lock, err
}

// Adopt makes a database the base of a new epoch at the next start of a node in
// the data directory, which must be locked. The files that are there are set
// aside; it returns where.
func Adopt(ctx context.Context, opts Options, file string) (aside string, err error) {
	b := newBoot(opts)
	f := b.files
	state, err := f.inspect(ctx, file)
	if err != nil {
		return "", fmt.Errorf("adopt %s: %w", file, err)
	}
	s, err := openStore(ctx, opts.Config.Replica, opts.Logger)
	if err != nil {
		return "", err
	}
	defer s.close()
	b.store = s
	lock, err := b.lock(ctx, local{hasDB: true, state: state})
	if err != nil {
		return "", err
	}
	if err := claimLineage(ctx, s, lock, state); err != nil {
		return "", err
	}
	var old nodeFile // its sessions show the root to be this directory's, if it is
	if _, err := readJSON(f.node(), &old); err != nil {
		return "", err
	}
	incoming := filepath.Join(opts.Dir, "adopt.tmp")
	if err := copyDatabase(ctx, file, incoming); err != nil {
		return "", fmt.Errorf("adopt %s: %w", file, err)
	}
	if aside, err = f.setAside(); err != nil {
		return aside, err
	}
	if err := os.Rename(incoming, f.db); err != nil {
		return aside, err
	}
	return aside, f.writeNode(nodeFile{Lineage: state.Lineage, Root: s.url(), Sessions: old.Sessions, Adopt: true})
}

// claimLineage makes sure that the root holds the database's lineage. A root
// that never was ready takes on the database's.
func claimLineage(ctx context.Context, s store, lock held, state State) error {
	if lock.Lineage == state.Lineage {
		return nil
	}
	if lock.Ready != 0 {
		return fmt.Errorf("%w: the file has lineage %s, %s has %s; a file can be adopted into its own root or into a new one",
			ErrForeign, short(state.Lineage), s.url(), short(lock.Lineage))
	}
	next := lock.Lock
	next.Lineage = state.Lineage
	_, err := swap(ctx, s, lock, next)
	return err
}

// copyDatabase copies a database that is not open elsewhere. One whose last
// commits are still in its WAL, as a node leaves it, is read through SQLite.
func copyDatabase(ctx context.Context, from, to string) error {
	if info, err := os.Stat(from + "-wal"); err == nil && info.Size() > 0 {
		return copyWithWAL(ctx, from, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

func copyWithWAL(ctx context.Context, from, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", fileURI(from, "mode=ro"))
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "vacuum into ?", to)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return errors.Join(os.Chmod(to, 0o600), syncFile(to))
}

// RestoreOptions say what [Restore] brings where.
type RestoreOptions struct {
	Replica  Replica
	Output   string    // a file that is not there yet
	Epoch    int64     // 0: the one that is ready, or was at Time
	TXID     uint64    // 0: the newest; not together with Time
	Time     time.Time // the state just before it; zero: no matter when
	Full     bool      // check the whole database, not its structure alone
	Progress func(Progress)
	Logger   *slog.Logger
}

// Restored is what [Restore] brought.
type Restored struct {
	Epoch int64
	TXID  uint64
}

// Restore brings a copy out of a root, without a node. Errors: ErrNoLock, a
// *RemoteError, fs.ErrExist.
func Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	if _, err := os.Stat(o.Output); err == nil {
		return Restored{}, fmt.Errorf("restore: %s: %w", o.Output, os.ErrExist)
	}
	s, err := openStoreToRead(ctx, o.Replica, o.Logger)
	if err != nil {
		return Restored{}, err
	}
	defer s.close()
	lock, err := readLock(ctx, s)
	if err != nil {
		return Restored{}, err
	}
	if lock.Ready == 0 {
		return Restored{}, fmt.Errorf("restore: %s has never held a database", s.url())
	}
	to := target{txid: ltx.TXID(o.TXID), at: o.Time, check: litestream.IntegrityCheckQuick}
	if o.Full {
		to.check = litestream.IntegrityCheckFull
	}
	switch {
	case o.Epoch != 0:
	case o.Time.IsZero():
		o.Epoch = lock.Ready
	default:
		if o.Epoch, to, err = epochAt(ctx, s, to); err != nil {
			return Restored{}, err
		}
	}
	txid, err := fetch(ctx, s, o.Epoch, o.Output, to, o.Logger, o.Progress)
	return Restored{Epoch: o.Epoch, TXID: uint64(txid)}, err
}
