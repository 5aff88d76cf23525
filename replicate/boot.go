package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options say which data directory is to be kept in which root. Dir must be
// locked by the caller.
type Options struct {
	Dir      string
	Database string // its path, in Dir
	Config   Config
	// Embedded says that the replica is a folder of Dir itself: it is begun
	// without Init.
	Embedded bool
	Node     string // this node's name
	URL      string // where it answers; other nodes look there for life
	Schema   int    // of the databases that this program writes
	// Inspect looks at a database without changing it or its WAL. It returns
	// ErrNoDatabase for a file that holds none.
	Inspect func(ctx context.Context, path string) (State, error)
	Logger  *slog.Logger
	Now     func() time.Time // nil: time.Now; the lease counts by its monotonic reading
	// Yield is how long another node may take the root that this one closed
	// itself, before this one takes it again: for a handover. 0: not at all.
	Yield time.Duration
	// Progress is told how a restore gets on, and Waiting why the boot waits.
	// Both may be nil.
	Progress func(Progress)
	Waiting  func(error)
	// Taken is told what lock.json says once the root is this node's, which is
	// before the restore. From then on the node should answer for its session
	// at URL + "/v1/node", so that others see that it lives. It may be nil.
	Taken func(Lock)
	// Standby is told, in auto mode, whom this node waits for, and again when
	// that node's epoch becomes ready; it may be nil.
	Standby func(Lock)
	// Uploaded is told, unless it is nil, how far an epoch is in the replica,
	// each time that it got further: all commits up to seq are there at txid. It
	// must be quick.
	Uploaded func(epoch int64, txid uint64, seq int64)
	// Following is told how to ask how far the copy is that a standby keeps; it may
	// be nil.
	Following func(status func() FollowStatus)

	lookForLife time.Duration // how long a silent holder is watched; tests shorten it
}

// path is how a boot goes on; see DESIGN.md.
type path int

const (
	pathResume   path = iota // the same epoch and prefix
	pathOwnFile              // the next epoch, the local file is its base
	pathTakeOver             // the next epoch, restored from ready
)

func (p path) String() string {
	return [...]string{"resume", "next epoch from the local file", "take over"}[p]
}

// boot takes the root for a data directory.
type boot struct {
	opts   Options
	files  files
	store  store
	log    *slog.Logger
	tested bool // what the provider can do is known
	now    func() time.Time
	yield  time.Time // until then others may take the root first
	// follower keeps the copy of a standby; nil until it is one.
	follower *Follower
}

// Acquire takes the root for this data directory and leaves the right database
// in it: the local one, a restored one, or none in a root that is new. On
// return the node may open the database with [Primary.Epoch] and
// [Primary.Lineage], and then call [Primary.Start].
//
// Errors: ErrNoLock, ErrHeld, ErrDiverged, ErrForeign, ErrNewer, ErrRootLocked, a
// *RemoteError.
func Acquire(ctx context.Context, opts Options) (*Primary, error) {
	if opts.lookForLife == 0 {
		opts.lookForLife = 5 * time.Second
	}
	b := newBoot(opts)
	var err error
	if b.store, err = openStore(ctx, opts.Config.Replica, opts.Logger); err != nil {
		return nil, err
	}
	p, err := b.acquire(ctx)
	b.endFollow(err == nil)
	if err != nil {
		return nil, errors.Join(err, b.store.close())
	}
	return p, nil
}

func newBoot(opts Options) *boot {
	b := &boot{opts: opts, log: opts.Logger, files: files{dir: opts.Dir, db: opts.Database, inspect: opts.Inspect}, now: opts.Now}
	if b.now == nil {
		b.now = time.Now
	}
	b.yield = b.now().Add(opts.Yield)
	return b
}

const bootTries = 5 // lost races and copies that turned out to be old

func (b *boot) acquire(ctx context.Context) (*Primary, error) {
	wait := firstRetry
	for lost := 0; ; {
		p, err := b.once(ctx)
		switch {
		case err == nil:
			return p, nil
		case unavailable(err):
			if p := b.offline(ctx, err); p != nil {
				return p, nil
			}
			b.waiting(err)
			if !sleep(ctx, wait) {
				return nil, err
			}
			wait = min(2*wait, lastRetry)
		case errors.Is(err, errCondition) || errors.Is(err, errAgain):
			if lost++; lost == bootTries {
				return nil, err
			}
			b.log.Info("boot starts again", "reason", err)
		default:
			return nil, err
		}
	}
}

func (b *boot) waiting(err error) {
	b.log.Warn("the root cannot be reached; waiting for it", "err", err)
	if b.opts.Waiting != nil {
		b.opts.Waiting(err)
	}
}

var errAgain = errors.New("the local copy was set aside")

// once goes through the rules once. It swaps first and compares afterwards:
// what the holder before acknowledged in between is then in its prefix.
func (b *boot) once(ctx context.Context) (*Primary, error) {
	here, err := b.files.read(ctx)
	if err != nil {
		return nil, err
	}
	lock, err := b.lock(ctx, here)
	if err != nil {
		return nil, err
	}
	how, lock, err := b.choose(ctx, here, lock)
	if err != nil {
		return nil, err
	}
	if err := b.tryProvider(ctx); err != nil {
		return nil, err
	}
	b.log.Info("boot", "path", how.String(), "epoch", lock.Epoch, "ready", lock.Ready, "holder", lock.Node)
	next := lock.Lock
	next.Session, next.Node, next.URL, next.Closed, next.Schema = newID(), b.opts.Node, b.opts.URL, false, b.opts.Schema
	if how != pathResume {
		next.Epoch++
	}
	if how == pathOwnFile { // which may come from a root that got further than this one
		next.Epoch = max(next.Epoch, here.state.Epoch+1)
	}
	if how != pathTakeOver {
		if err := errors.Join(fault("before-session"), b.files.addSession(&here.node, next.Session)); err != nil {
			return nil, err
		}
	}
	if err := fault("before-swap"); err != nil {
		return nil, err
	}
	sent := b.now()
	now, err := swap(ctx, b.store, lock, next)
	if err := errors.Join(err, fault("after-swap")); err != nil {
		return nil, err
	}
	b.taken(now.Lock)
	p := b.primary(now, how, here.node)
	p.hold(sent)
	if how == pathTakeOver {
		err = b.takeOver(ctx, p)
	} else {
		err = b.keepLocal(ctx, p, here)
	}
	if err != nil {
		p.letGo()
		return nil, err
	}
	return p, nil
}

func (b *boot) taken(lock Lock) {
	if b.opts.Taken != nil {
		b.opts.Taken(lock)
	}
}

// tryProvider finds out whether the bucket's conditional writes work. Without
// them nothing but the operator's care keeps two nodes apart.
func (b *boot) tryProvider(ctx context.Context) error {
	if b.tested || b.opts.Config.Replica.Type == TypeFile {
		return nil
	}
	b.tested = true
	err := selfTest(ctx, b.store)
	switch {
	case errors.Is(err, errNoConditionalWrites) && b.auto():
		return fmt.Errorf("failover: auto needs them; use manual: %w", err)
	case errors.Is(err, errNoConditionalWrites):
		b.log.Warn("the bucket cannot keep two nodes apart: never start a second one on this root", "err", err)
		b.store = unconditional{b.store}
	case err != nil:
		b.log.Warn("test of the bucket", "err", err)
	}
	return nil
}

// lock reads lock.json. An embedded root begins by itself.
func (b *boot) lock(ctx context.Context, here local) (held, error) {
	lock, err := readLock(ctx, b.store)
	if !errors.Is(err, ErrNoLock) || !b.opts.Embedded {
		return lock, err
	}
	if entries, lerr := b.store.list(ctx, ""); lerr != nil || len(entries) > 0 {
		return lock, errors.Join(err, lerr) // a lock.json that cannot be read is not a new root
	}
	lineage := newID()
	if here.hasDB {
		lineage = here.state.Lineage
	}
	return swap(ctx, b.store, held{}, Lock{Lineage: lineage})
}

// choose decides how the boot goes on, or that it must not. In auto mode it
// waits for its turn first; the lock that it returns is the one to swap.
func (b *boot) choose(ctx context.Context, here local, lock held) (path, held, error) {
	if lock.Schema > b.opts.Schema {
		return 0, lock, fmt.Errorf("%w: its schema is %d, this program writes %d", ErrNewer, lock.Schema, b.opts.Schema)
	}
	if here.hasDB && here.state.Lineage != lock.Lineage {
		return 0, lock, fmt.Errorf("%w: %s has lineage %s, %s has %s; correct the path, move the database away, or make it a new root's by `holdfast adopt`",
			ErrForeign, b.files.db, short(here.state.Lineage), b.store.url(), short(lock.Lineage))
	}
	own, lock, err := b.own(ctx, here, lock)
	switch {
	case err != nil:
		return 0, lock, err
	case own && here.node.Adopt:
		return pathOwnFile, lock, nil
	case own && lock.Ready == lock.Epoch && (here.same || b.closedHere(lock)):
		return pathResume, lock, nil
	case own:
		return pathOwnFile, lock, nil
	}
	if lock, err = b.mayTake(ctx, lock); err != nil {
		return 0, lock, err
	}
	if here.hasDB && here.hasNode && here.node.Adopt || b.fresh(here, lock) {
		return pathOwnFile, lock, nil
	}
	if here.hasDB && lock.Ready == 0 {
		return 0, lock, fmt.Errorf("%w: %s is new and %s holds jobs; `holdfast adopt %s` makes it the start", ErrForeign, b.store.url(), b.files.dir, b.files.db)
	}
	return pathTakeOver, lock, nil
}

// fresh reports whether an embedded root was just begun for a database that
// was there before it, as by an earlier version.
func (b *boot) fresh(here local, lock held) bool {
	return b.opts.Embedded && here.hasDB && lock.Epoch == 0
}

// closedHere reports whether the root was closed at the position of the local
// files, so that nothing can have been lost since.
func (b *boot) closedHere(lock held) bool {
	newest, err := newestLocal(b.files.ltxPath(lock.Epoch))
	return err == nil && lock.Closed && uint64(newest) == lock.TXID
}

// keepLocal goes on with the local file, unless ready's prefix has more or
// something else.
func (b *boot) keepLocal(ctx context.Context, p *Primary, here local) error {
	lock := p.written()
	p.node.Lineage, p.node.Root, p.node.Epoch, p.node.Served = lock.Lineage, b.store.url(), lock.Epoch, false
	if err := errors.Join(fault("before-node"), b.files.writeNode(p.node)); err != nil {
		return err
	}
	p.parent = epochInfo{Epoch: lock.Epoch, Parent: lock.Ready}
	if lock.Ready == 0 || p.node.Adopt {
		return nil
	}
	c, err := b.files.compare(ctx, b.store, lock.Ready, here.state)
	if err != nil {
		return fmt.Errorf("compare with the replica: %w", err)
	}
	switch c.relation {
	case relationDiffers:
		return fmt.Errorf("%w: %s. Keep %s and start with an empty directory to restore the replica, or make this file the truth by `holdfast adopt %s`",
			ErrDiverged, c.what, b.files.dir, b.files.db)
	case relationBehind:
		b.log.Warn("the local copy is old", "compared", c.what)
		if p.how == pathOwnFile {
			return b.takeOver(ctx, p)
		}
		aside, err := b.files.setAside()
		b.log.Warn("the local copy was set aside", "to", aside, "err", err)
		return errors.Join(errAgain, err)
	}
	p.parent.ParentTXID = uint64(c.remote)
	b.log.Info("the local copy is good", "compared", c.what)
	return nil
}

// takeOver restores ready's state in the place of whatever is here. Until
// node.json is written at the end, a crash means: take over again.
func (b *boot) takeOver(ctx context.Context, p *Primary) error {
	lock := p.written()
	before, err := b.files.read(ctx)
	if err != nil {
		b.log.Warn("the local files cannot be read", "err", err)
	}
	uploaded := err == nil && b.files.uploaded(before)
	aside, err := b.files.setAside()
	if err := errors.Join(err, fault("after-aside")); err != nil {
		return err
	}
	p.parent = epochInfo{Epoch: lock.Epoch, Parent: lock.Ready}
	if lock.Ready != 0 {
		txid, err := b.bring(ctx, lock.Ready)
		if err != nil {
			return fmt.Errorf("restore epoch %d from %s: %w", lock.Ready, b.store.url(), err)
		}
		p.parent.ParentTXID = uint64(txid)
	}
	if aside != "" {
		b.reportAside(ctx, before, aside)
	}
	p.node = nodeFile{Lineage: lock.Lineage, Root: b.store.url(), Epoch: lock.Epoch, Sessions: []string{lock.Session}}
	err = errors.Join(fault("after-restore"), b.files.writeNode(p.node))
	if err == nil && aside != "" && uploaded {
		if err := b.files.pruneAside(aside); err != nil {
			b.log.Warn("what was set aside long ago stays", "err", err)
		}
	}
	return err
}

// reportAside says what files that were set aside hold beyond what was
// restored.
func (b *boot) reportAside(ctx context.Context, before local, aside string) {
	attrs := []any{"to", aside}
	if before.hasDB {
		attrs = append(attrs, "epoch", before.state.Epoch, "seq", before.state.Seq)
	}
	if after, err := b.files.inspect(ctx, b.files.db); err == nil {
		attrs = append(attrs, "restored_epoch", after.Epoch, "restored_seq", after.Seq)
	}
	b.log.Warn("local files were set aside", attrs...)
}

func (b *boot) primary(lock held, how path, node nodeFile) *Primary {
	p := &Primary{boot: b, lock: lock, how: how, node: node, lost: make(chan struct{})}
	if b.auto() {
		p.lease.ttl = b.opts.Config.LeaseTTL
	}
	p.run, p.cancel = context.WithCancel(context.Background())
	return p
}

// hold keeps the root from the moment that the swap was sent: what follows may
// take longer than a TTL.
func (p *Primary) hold(sent time.Time) {
	p.lease.renewed(sent, p.boot.now())
	p.group.Go(func() error { p.renew(p.run); return nil })
}

// written is lock.json as this node last wrote it. A renewal may write it at any
// moment, but for who holds the root and in which epoch.
func (p *Primary) written() held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lock
}

// letGo ends what hold and Start began.
func (p *Primary) letGo() {
	p.cancel()
	p.group.Wait() //nolint:errcheck // its functions return none
}

func short(id string) string { return id[:min(8, len(id))] }
