package replicate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/superfly/ltx"
)

// followName is the folder of the data directory where a standby keeps its copy.
const followName = "follow"

// mostStandbyPoll is the longest pause between two looks of a standby at the
// root. What it is behind by then is quickly read when it takes over.
const mostStandbyPoll = 5 * time.Second

func (b *boot) followDir() string { return filepath.Join(b.opts.Dir, followName) }

// follow begins to follow while this node waits for the lease. The copy is only a
// head start: the root is taken, and the local files are set aside, by the rules of
// a boot, and whatever is wrong with the copy, a restore takes its place. The
// function that it returns ends it and leaves the copy as it is. A standby that
// cannot follow waits all the same.
func (b *boot) follow(ctx context.Context) (stop func()) {
	f, err := b.openStandby(ctx)
	if err != nil {
		b.log.Warn("the standby does not follow", "err", err)
		return func() {}
	}
	if b.opts.Following != nil {
		b.opts.Following(f.Status)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(done)
		f.loop(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// openStandby opens the follower of this boot, once.
func (b *boot) openStandby(ctx context.Context) (*Follower, error) {
	if b.follower != nil {
		return b.follower, nil
	}
	f, err := OpenFollower(ctx, FollowOptions{
		Dir: b.followDir(), Replica: b.opts.Config.Replica, Logger: b.log, Poll: min(mostStandbyPoll, b.opts.Config.LeaseTTL/2),
	})
	b.follower = f
	return f, err
}

// endFollow closes what this boot followed with. The copy is of no use to a
// primary; to a node that tries again it is.
func (b *boot) endFollow(primary bool) {
	var err error
	if b.follower != nil {
		err = b.follower.close()
		b.follower = nil
	}
	if primary {
		err = errors.Join(err, os.RemoveAll(b.followDir()))
	}
	if err != nil {
		b.log.Warn("the copy of the standby", "err", err)
	}
}

// bring brings ready's state into the data directory, which has none by now: by
// the standby's copy, else by a restore.
func (b *boot) bring(ctx context.Context, ready int64) (ltx.TXID, error) {
	_, err := os.Stat(b.followDir())
	if err != nil {
		return b.restore(ctx, ready)
	}
	began := time.Now()
	txid, err := b.promote(ctx, ready)
	switch {
	case err == nil:
		b.log.Info("the standby's copy is the database now", "epoch", ready, "txid", txid, "took", time.Since(began).String())
		return txid, nil
	case ctx.Err() != nil:
		return 0, err
	}
	b.log.Warn("the standby's copy cannot be used; restoring", "epoch", ready, "err", err)
	b.endFollow(true) // the restore may need its room
	if err := b.discard(ready); err != nil {
		return 0, err
	}
	return b.restore(ctx, ready)
}

const promoteTries = 3

var errNotFollowed = errors.New("there is no copy of that epoch")

// promote makes the standby's copy the database: brought to the end of ready's
// prefix, checked, and with the file of level 0 beside it by which the next boot
// compares the two. The file itself comes last: without node.json, which follows
// it, it is not trusted.
func (b *boot) promote(ctx context.Context, ready int64) (ltx.TXID, error) {
	f, err := b.openStandby(ctx)
	if err != nil {
		return 0, err
	}
	if f.back == nil || f.back.state.TXID == 0 || f.back.state.Epoch != ready {
		return 0, errNotFollowed // to make one would be another restore
	}
	for try := 1; ; try++ {
		err = f.catchUp(ctx)
		if err == nil || try == promoteTries || !sleep(ctx, firstFollowRetry) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("catch up: %w", err)
	}
	c := f.back
	txid := c.state.TXID
	if err := fault("after-catch-up"); err != nil {
		return 0, err
	}
	if err := checkCopy(ctx, c.path); err != nil {
		return 0, errors.Join(err, f.discard())
	}
	if err := errors.Join(fault("after-check"), b.files.keep(ctx, f.prefix.client, ready, txid)); err != nil {
		return 0, err
	}
	f.back = nil
	return txid, c.promote(b.files.db)
}

// catchUp brings the copy to the end of ready's prefix: until two looks, one
// after the other, find nothing newer.
func (f *Follower) catchUp(ctx context.Context) error {
	for same := 0; same < 2; {
		var before ltx.TXID
		if f.back != nil {
			before = f.back.state.TXID
		}
		more, err := f.once(ctx)
		f.note(err)
		if err != nil {
			return err
		}
		if same++; more || f.back == nil || f.back.state.TXID != before {
			same = 0
		}
	}
	if !f.back.whole() {
		return errNotFollowed
	}
	return nil
}

// checkCopy looks through the structure of a copy, as a restore does.
func checkCopy(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", copyURI(path))
	if err != nil {
		return err
	}
	defer db.Close()
	var result string
	if err := db.QueryRowContext(ctx, "pragma quick_check(1)").Scan(&result); err != nil {
		return fmt.Errorf("check the copy: %w", err)
	}
	if result != "ok" {
		return fmt.Errorf("check the copy: %s", result)
	}
	return nil
}

// promote moves the copy to where it is a database of its own again, with a WAL
// (see write), and makes that durable.
func (c *localCopy) promote(to string) error {
	if err := fault("after-keep"); err != nil {
		return err
	}
	// From here on it is no copy any more, whatever happens.
	if err := os.Remove(c.path + stateSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fault("after-forget"); err != nil {
		return err
	}
	w, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = w.WriteAt([]byte{2, 2}, 18)
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return fmt.Errorf("give the copy a WAL: %w", err)
	}
	if err := fault("after-wal"); err != nil {
		return err
	}
	if err := os.Rename(c.path, to); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(to)), syncDir(filepath.Dir(c.path)))
}
