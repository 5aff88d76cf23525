package replicate

import (
	"context"
	"errors"
	"time"

	"github.com/benbjohnson/litestream"
)

// upkeep is what is due for the prefix: compaction of each level into the
// next, snapshots, retention. It follows uploads: each upload leaves level 1
// something to compact, that leaves level 2 something, and so on; when no
// level has anything left, nothing is due.
type upkeep struct {
	levels   []time.Duration // interval of level i+1
	due      []time.Time     // of level i+1; zero: nothing to compact
	snapshot time.Time       // the last
	fresh    bool            // something was uploaded since
}

// tend says that something was uploaded.
func (s *stream) tend() { signal(s.care) }

// maintain keeps the prefix small. An idle node has nothing to do here, and
// lists and writes nothing.
func (s *stream) maintain(ctx context.Context) {
	c := s.primary.boot.opts.Config
	now := s.primary.boot.now
	u := &upkeep{levels: c.Levels, due: make([]time.Time, len(c.Levels)), snapshot: now()}
	if at := s.lastSnapshot(ctx); !at.IsZero() {
		s.primary.snapshotAt(at)
		if age := u.snapshot.Sub(at); age > 0 { // else a clock was set, and the next one must not wait for that time
			u.snapshot = u.snapshot.Add(-age) // not at, which has no monotonic reading
		}
	}
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.primary.lost:
			return
		case <-s.care:
			u.uploaded(now())
		case <-timer.C:
		}
		if err := s.upkeep(ctx, u, now()); err != nil && ctx.Err() == nil {
			s.primary.boot.log.Warn("upkeep of the replica", "err", err)
		}
		timer.Reset(u.next(c.Snapshot.Interval, now()))
	}
}

const never = 1 << 62 // ns, more than a century

func (u *upkeep) uploaded(now time.Time) {
	u.fresh = true
	u.want(0, now)
}

func (u *upkeep) want(i int, now time.Time) {
	if i < len(u.due) && u.due[i].IsZero() {
		u.due[i] = now.Add(u.levels[i])
	}
}

// next is how long there is nothing to do.
func (u *upkeep) next(snapshots time.Duration, now time.Time) time.Duration {
	wait := time.Duration(never)
	for _, at := range u.due {
		if !at.IsZero() {
			wait = min(wait, at.Sub(now))
		}
	}
	if u.fresh && snapshots > 0 {
		wait = min(wait, u.snapshot.Add(snapshots).Sub(now))
	}
	return max(wait, time.Millisecond)
}

// upkeep does what is due. A step that fails is due again after its interval.
func (s *stream) upkeep(ctx context.Context, u *upkeep, now time.Time) error {
	ctx, done, err := s.begin(ctx)
	if errors.Is(err, errNoRoom) {
		return nil // the rounds tell
	}
	if err != nil {
		return err
	}
	defer done()
	var errs []error
	for i, at := range u.due {
		if at.IsZero() || now.Before(at) {
			continue
		}
		u.due[i] = time.Time{}
		switch _, err := s.db.Compact(ctx, i+1); {
		case errors.Is(err, litestream.ErrNoCompaction):
		case err != nil:
			errs = append(errs, err)
			u.want(i, now)
		default:
			u.want(i+1, now)
		}
	}
	if snap := s.primary.boot.opts.Config.Snapshot; u.fresh && snap.Interval > 0 && now.Sub(u.snapshot) >= snap.Interval {
		errs = append(errs, s.takeSnapshot(ctx, u, now))
	}
	return errors.Join(errs...)
}

// lastSnapshot returns when the last snapshot was taken; zero: none was yet, or
// it is not known.
func (s *stream) lastSnapshot(ctx context.Context) time.Time {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return time.Time{}
	}
	defer done()
	info, err := s.db.MaxLTXFileInfo(ctx, litestream.SnapshotLevel)
	if err != nil || info.MaxTXID == 0 {
		return time.Time{}
	}
	return info.CreatedAt
}

// snapshotAt records when the last snapshot was taken.
func (p *Primary) snapshotAt(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.LastSnapshot = at
}

// takeSnapshot writes a whole copy and lets go of what is older than the
// retention, on every level.
func (s *stream) takeSnapshot(ctx context.Context, u *upkeep, now time.Time) error {
	u.snapshot, u.fresh = now, false
	if _, err := s.db.Snapshot(ctx); err != nil {
		return err
	}
	p := s.primary
	p.snapshotAt(now)
	oldest, err := s.db.EnforceSnapshotRetention(ctx, now.Add(-p.boot.opts.Config.Snapshot.Retention))
	if err != nil {
		return err
	}
	for level := range u.levels {
		if err := s.db.EnforceRetentionByTXID(ctx, level+1, oldest); err != nil {
			return err
		}
	}
	if err := p.check(); err != nil {
		return err
	}
	gone, err := collect(ctx, p.boot.store, now.Add(-p.boot.opts.Config.Snapshot.Retention), false)
	for _, e := range gone {
		p.boot.log.Info("deleted an epoch that no restore needs any more", "epoch", e.Epoch, "files", e.Files, "bytes", e.Bytes)
	}
	return err
}
