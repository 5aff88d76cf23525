package replicate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/superfly/ltx"
)

// FollowOptions say what a [Follower] follows, and where it keeps its copies.
type FollowOptions struct {
	// Dir is for the copies and belongs to this follower alone, which locks it.
	// It is made where it is missing. What a follower left there is gone on with.
	Dir string
	// Replica is the root. Nothing is put there: rights to read suffice.
	Replica Replica
	Logger  *slog.Logger
	// Readers keeps two copies, of which one is served by [Follower.Acquire].
	// Without it there is one, which nobody reads, as a standby needs it.
	Readers bool
	// Open opens the pool that readers of a copy share, read-only and immutable:
	// an open copy never changes. It must keep off mmap. nil: eight connections
	// without anything special.
	Open func(path string) (*sql.DB, error)
	// Seq reads the seq of the last commit from a copy that is about to be
	// served. An error keeps the copy from being served, as when its schema is
	// not known. nil: no seq is known.
	Seq func(ctx context.Context, db *sql.DB) (int64, error)
	// Poll is how often the root is looked at: one GET and one LIST. 0: 1 s.
	Poll time.Duration
	// Subscribed is Poll while positions come by [Follower.Poke]. 0: 1 min.
	Subscribed time.Duration
}

// Errors on which a caller of a [Follower] branches.
var (
	// ErrNoCopy is returned by Acquire before there is a copy to read.
	ErrNoCopy = errors.New("there is no copy of the database yet")
	// ErrFollowed is returned when another process follows in the same directory.
	ErrFollowed = errors.New("another process follows in this directory")
)

const (
	leastSwap        = 100 * time.Millisecond // between two swaps
	firstFollowRetry = 250 * time.Millisecond
	maxBatch         = 16 << 20 // of files that are kept for the other copy, in bytes
	maxBatchFiles    = 512
	slowDrain        = 5 * time.Second // of readers, before Status tells
)

// Follower keeps copies of the database of a root up to date, and serves them to
// readers. See DESIGN.md, "Follow".
//
//	f, err := OpenFollower(ctx, FollowOptions{Dir: dir, Replica: r, Readers: true, Seq: seq, Logger: log})
//	g.Go(func() error { return f.Run(ctx) })
//	…
//	v, err := f.Acquire() // one consistent state, until Release
//	defer v.Release()
//	rows, err := v.DB.QueryContext(ctx, …)
//
// Its methods may be called from any goroutine.
type Follower struct {
	opts   FollowOptions
	store  store
	lock   *flock.Flock
	log    *slog.Logger
	read   atomic.Int64 // bytes of the replica
	woken  chan struct{}
	client func(epoch int64) (*prefixFiles, error)
	step   func(string) error // of the copies that are written; tests

	// Of Run alone.
	prefix  *prefixFiles
	root    held      // lock.json as it was last read
	asked   time.Time // when the request for it was sent
	back    *localCopy
	reseed  bool // the next copy is made from the replica, not from the other
	swapped time.Time

	mu         sync.Mutex
	front      *view // nil: none yet
	changed    chan struct{}
	hint       hint
	subscribed bool
	fresh      time.Time // when the front was last known to be the newest
	status     FollowStatus
}

// hint is a position that the primary told.
type hint struct {
	epoch int64
	txid  ltx.TXID
}

// OpenFollower prepares a follower. What it left in its directory before is
// served at once; nothing is asked of the root until [Follower.Run], which must
// follow, since it also closes the follower.
//
// Errors: ErrFollowed, and those of the local disk.
func OpenFollower(ctx context.Context, o FollowOptions) (*Follower, error) {
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Subscribed == 0 {
		o.Subscribed = time.Minute
	}
	if o.Open == nil {
		o.Open = openCopy
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	o.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	lock := flock.New(filepath.Join(dir, folderLock), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	if locked, err := lock.TryLock(); err != nil || !locked {
		if err == nil {
			err = ErrFollowed
		}
		return nil, fmt.Errorf("follow in %s: %w", dir, err)
	}
	f := &Follower{opts: o, lock: lock, log: o.Logger, woken: make(chan struct{}, 1), changed: make(chan struct{})}
	f.client = f.openPrefix
	if f.store, err = openStoreToRead(ctx, o.Replica, o.Logger); err == nil {
		err = f.load(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("follow: %w", err), lock.Close())
	}
	return f, nil
}

// load takes up what is in the directory.
func (f *Follower) load(ctx context.Context) error {
	copies, err := openCopies(f.opts.Dir)
	if err != nil {
		return err
	}
	for f.opts.Readers && f.front == nil {
		// Before the root is asked, its URL alone says whose copy this is.
		best := take(&copies, func(c *localCopy) bool { return c.whole() && c.state.Root == f.store.url() })
		if best == nil {
			break
		}
		v, err := f.open(ctx, best)
		if err != nil {
			f.log.Warn("a copy from before cannot be served", "err", err)
			if err := best.remove(); err != nil {
				return err
			}
			continue
		}
		f.front = v
	}
	f.back = take(&copies, func(*localCopy) bool { return true })
	for _, c := range copies {
		err = errors.Join(err, c.remove())
	}
	return err
}

// take takes the copy out of the list that is furthest of those that will do.
func take(copies *[]*localCopy, ok func(*localCopy) bool) *localCopy {
	best := -1
	for i, c := range *copies {
		if !ok(c) {
			continue
		}
		if best < 0 || c.state.beyond(&(*copies)[best].state) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	c := (*copies)[best]
	*copies = append((*copies)[:best:best], (*copies)[best+1:]...)
	return c
}

func (s *copyState) beyond(t *copyState) bool {
	if s.Epoch != t.Epoch {
		return s.Epoch > t.Epoch
	}
	return s.TXID > t.TXID
}

// Run follows until ctx ends, and then closes the follower: readers that are
// under way get a moment to finish. It never gives up by itself; what keeps it
// from going on is in [Follower.Status] meanwhile.
func (f *Follower) Run(ctx context.Context) error {
	f.loop(ctx)
	return f.close()
}

// loop is Run without the end.
func (f *Follower) loop(ctx context.Context) {
	var retry time.Duration
	for ctx.Err() == nil {
		more, err := f.once(ctx)
		if ctx.Err() != nil {
			break
		}
		f.note(err)
		switch {
		case err != nil:
			retry = min(max(2*retry, firstFollowRetry), lastRetry)
			sleep(ctx, retry/2+rand.N(retry))
		case more:
			retry = 0
		default:
			retry = 0
			f.wait(ctx)
		}
	}
}

// wait returns when it is time to look at the root again, or the primary said
// that there is more.
func (f *Follower) wait(ctx context.Context) {
	f.mu.Lock()
	interval := f.opts.Poll
	if f.subscribed {
		interval = f.opts.Subscribed
	}
	f.mu.Unlock()
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.woken:
	}
}

// once brings the copy further, by one batch at most; more says that there may
// be another one.
func (f *Follower) once(ctx context.Context) (more bool, err error) {
	if links := f.guessed(); links != nil {
		if more, err = f.advance(ctx, links); !errors.Is(err, os.ErrNotExist) {
			return more, err
		}
	}
	alive, err := f.readRoot(ctx)
	if err != nil {
		return false, err
	}
	if err := f.prepare(); err != nil {
		return false, err
	}
	links, last, err := f.prefix.after(ctx, f.back.state.TXID)
	f.listed(last)
	if err != nil {
		return false, err
	}
	if len(links) > 0 {
		if f.back.state.TXID == 0 {
			if err := f.back.aim(links[len(links)-1].MaxTXID); err != nil {
				return false, err
			}
		}
		return f.advance(ctx, links)
	}
	if err := f.publish(ctx, nil); err != nil {
		return false, err
	}
	f.isNewest(alive)
	return false, nil
}

// guessed returns the files that the primary's last word leads to, if they can
// be known without looking at the root.
func (f *Follower) guessed() []*ltx.FileInfo {
	f.mu.Lock()
	told := f.hint
	f.hint = hint{}
	f.mu.Unlock()
	if f.back == nil || f.prefix == nil || told.epoch != f.prefix.epoch || !f.back.at(f.root.Lineage, told.epoch) || !f.back.whole() {
		return nil
	}
	if time.Since(f.asked) > f.opts.Subscribed {
		return nil // it may have lost its place and not know
	}
	return guess(f.back.state.TXID, told.txid)
}

// readRoot reads lock.json. It returns when the primary was surely alive, or
// zero: a version that changed since the last look was written after that look.
func (f *Follower) readRoot(ctx context.Context) (alive time.Time, err error) {
	sent := time.Now()
	now, err := readLock(ctx, f.store)
	if err != nil {
		return alive, err
	}
	if f.root.version != "" && f.root.version != now.version && now.Ready == now.Epoch && !now.Closed {
		alive = f.asked
	}
	f.root, f.asked = now, sent
	f.mu.Lock()
	f.status.Node, f.status.NodeURL = now.Node, now.URL
	f.mu.Unlock()
	if now.Ready == 0 {
		return alive, fmt.Errorf("%s has never held a database", f.store.url())
	}
	if f.prefix == nil || f.prefix.epoch != now.Ready {
		if f.prefix, err = f.client(now.Ready); err != nil {
			return alive, err
		}
	}
	return alive, nil
}

func (f *Follower) openPrefix(epoch int64) (*prefixFiles, error) {
	client, err := f.store.client(prefixOf(epoch))
	if err != nil {
		return nil, err
	}
	guarded := newGuard(client, guardOptions{url: f.store.url(), counter: f.store.requests(), onBytes: func(n int64) { f.read.Add(n) }})
	guarded.SetLogger(quiet(f.log))
	return &prefixFiles{epoch: epoch, client: guarded, bad: map[ltxName]time.Time{}}, nil
}
