package replicate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"
)

// Position is how far a copy is.
type Position struct {
	Epoch int64
	TXID  uint64 // of the epoch's prefix
	Seq   int64  // of the database; 0: not known
	// AsOf is a time at which nothing newer had been uploaded: that of the last
	// file, by the primary's clock, or, by this machine's, when the primary was
	// last known to live and have no more, by its word or by its renewal of the
	// lease. Without either it stays where it is: a copy that is not known to be
	// the newest grows old.
	AsOf time.Time
}

// View is one consistent state of the database. It is valid until Release.
type View struct {
	DB       *sql.DB // read-only; nobody else changes what it shows
	Position Position

	f *Follower
	v *view
}

// view is a pool on a copy that does not change, and how many read it.
type view struct {
	db   *sql.DB
	copy *localCopy
	seq  int64

	// With Follower.mu.
	readers int
	retired bool
	drained chan struct{} // closed when it is retired and without readers
}

// Acquire returns the newest state. It has to be released, and soon: until then
// the follower can bring nothing newer than the one state after it. All rows must
// be closed by then. Error: ErrNoCopy.
func (f *Follower) Acquire() (*View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.front == nil {
		return nil, ErrNoCopy
	}
	// The reference comes before the pool is chosen for good, both under the
	// lock: a view that was retired gets no further reader.
	f.front.readers++
	return &View{DB: f.front.db, Position: f.position(), f: f, v: f.front}, nil
}

// Release ends the use of the view. Only the first call counts.
func (v *View) Release() {
	v.f.mu.Lock()
	defer v.f.mu.Unlock()
	if v.v == nil {
		return
	}
	w := v.v
	v.v, v.DB = nil, nil
	if w.readers--; w.readers == 0 && w.retired {
		close(w.drained)
	}
}

// retire lets nobody in any more; f.mu is held.
func (w *view) retire() {
	w.retired = true
	if w.readers == 0 {
		close(w.drained)
	}
}

// position is that of the front; f.mu is held.
func (f *Follower) position() Position {
	if f.front == nil {
		return Position{}
	}
	s := &f.front.copy.state
	p := Position{Epoch: s.Epoch, TXID: uint64(s.TXID), Seq: f.front.seq, AsOf: time.UnixMilli(s.MadeMS)}
	if f.fresh.After(p.AsOf) {
		p.AsOf = f.fresh
	}
	return p
}

// served is the copy that is served, or nil.
func (f *Follower) served() *localCopy {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.front == nil {
		return nil
	}
	return f.front.copy
}

// open opens a pool on a copy.
func (f *Follower) open(ctx context.Context, c *localCopy) (*view, error) {
	v := &view{copy: c, drained: make(chan struct{})}
	var err error
	if v.db, err = f.opts.Open(c.path); err != nil {
		return nil, fmt.Errorf("open a copy: %w", err)
	}
	if f.opts.Seq == nil {
		return v, nil
	}
	if v.seq, err = f.opts.Seq(ctx, v.db); err != nil {
		return nil, errors.Join(fmt.Errorf("look at a copy: %w", err), v.db.Close())
	}
	return v, nil
}

// openCopy is the default of FollowOptions.Open.
func openCopy(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", copyURI(path))
	if err == nil {
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
	}
	return db, err
}

// copyURI is how SQLite opens a copy. A file that never changes needs no locks,
// and none are taken.
func copyURI(path string) string { return fileURI(path, "mode=ro&immutable=1") }

// fileURI is the URI of an absolute path, with SQLite's parameters.
func fileURI(path, query string) string {
	path = filepath.ToSlash(path)
	if path != "" && path[0] != '/' {
		path = "/" + path // a drive
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query}).String()
}

// publish serves the copy that was written, if it is further than the one that
// is served, waits until nobody reads the old one, and applies batch to that,
// which is written from then on.
func (f *Follower) publish(ctx context.Context, batch []*fetchedFile) error {
	c, front := f.back, f.served()
	if !f.opts.Readers || c == nil || !c.whole() || front != nil && front.at(c.state.Lineage, c.state.Epoch) && front.state.TXID >= c.state.TXID {
		return nil
	}
	if !sleep(ctx, leastSwap-time.Since(f.swapped)) {
		return ctx.Err()
	}
	v, err := f.open(ctx, c)
	if err != nil {
		return f.reject(ctx, err)
	}
	old := f.swap(v)
	if old == nil {
		return nil
	}
	if err := f.drain(ctx, old); err != nil {
		return err
	}
	before := f.reseed
	f.reseed = false
	if before || !old.copy.at(c.state.Lineage, c.state.Epoch) {
		return old.copy.remove()
	}
	f.back = old.copy
	for _, file := range batch {
		if file.header.MaxTXID <= f.back.state.TXID {
			continue
		}
		if err := f.back.apply(file); errors.Is(err, errUnusable) {
			return f.discard() // it had fallen behind; the next is a clone
		} else if err != nil {
			return err
		}
	}
	return nil
}

// swap puts v in the place of the view that is served, and returns that.
func (f *Follower) swap(v *view) *view {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.front
	f.front, f.back, f.swapped = v, nil, time.Now()
	close(f.changed)
	f.changed = make(chan struct{})
	if old != nil {
		old.retire()
	}
	return old
}

// drain waits until nobody reads a view, and closes it.
func (f *Follower) drain(ctx context.Context, old *view) error {
	slow := time.NewTimer(slowDrain)
	defer slow.Stop()
	for {
		select {
		case <-old.drained:
			return old.db.Close()
		case <-slow.C:
			f.note(fmt.Errorf("a reader has kept the copy before this one for more than %s, and nothing newer can be brought until it is done", slowDrain))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), f.abandon(old))
		}
	}
}

// reject deals with a copy that cannot be served. One from an earlier run is
// made anew, since its file may have been changed; one that came from the replica
// in this run is what the replica holds, and is tried again as it goes on.
func (f *Follower) reject(ctx context.Context, err error) error {
	if f.back.fresh || ctx.Err() != nil {
		return err
	}
	f.reseed = true
	return errors.Join(err, f.discard())
}

const lastReaders = 5 * time.Second // that a close waits

// abandon closes a view whose readers may go on for a moment. Its file is not
// written any more.
func (f *Follower) abandon(v *view) error {
	select {
	case <-v.drained:
	case <-time.After(lastReaders):
		f.log.Warn("readers of a copy were cut off")
	}
	return errors.Join(v.db.Close(), v.copy.close())
}

// close ends the follower.
func (f *Follower) close() error {
	f.mu.Lock()
	front := f.front
	if f.front = nil; front != nil {
		front.retire()
	}
	f.mu.Unlock()
	var errs []error
	if front != nil {
		errs = append(errs, f.abandon(front))
	}
	if f.back != nil {
		errs = append(errs, f.back.close())
	}
	if err := errors.Join(append(errs, f.store.close(), f.lock.Close())...); err != nil {
		return fmt.Errorf("stop following: %w", err)
	}
	return nil
}
