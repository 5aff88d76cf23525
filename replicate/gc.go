package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// keptEpochs are the newest complete epochs that stay whatever their age: the
// one that is ready, and the one that it came from.
const keptEpochs = 2

// Collected is a prefix that [Collect] deleted, or would.
type Collected struct {
	Epoch int64
	Files int
	Bytes int64
}

// Collect deletes the prefixes of epochs that no restore needs any more: those
// whose successor has been ready for longer than the snapshots are kept, and
// those that never became ready before such a one. The newest two complete ones
// stay. With dry set it only says what it would delete. A primary does it by
// itself with each snapshot.
//
// Errors: ErrNoLock, ErrNewer, ErrRootLocked for a folder whose node runs, a
// *RemoteError.
func Collect(ctx context.Context, c Config, dry bool, log *slog.Logger) ([]Collected, error) {
	open := openStore
	if dry {
		open = openStoreToRead
	}
	s, err := open(ctx, c.Replica, log)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return collect(ctx, s, time.Now().Add(-c.Snapshot.Retention), dry)
}

// collect deletes what was replaced before a time.
func collect(ctx context.Context, s store, before time.Time, dry bool) ([]Collected, error) {
	lock, err := readLock(ctx, s)
	if err != nil {
		return nil, err
	}
	entries, err := s.list(ctx, "")
	if err != nil {
		return nil, err
	}
	byEpoch := map[int64][]entry{}
	for _, e := range entries {
		if n, ok := epochOf(e.key); ok {
			byEpoch[n] = append(byEpoch[n], e)
		}
	}
	readyAt := map[int64]time.Time{} // of the complete ones
	for n := range byEpoch {
		switch info, err := readEpoch(ctx, s, n); {
		case err == nil:
			readyAt[n] = time.UnixMilli(info.ReadyAtMS)
		case !errors.Is(err, errNoObject):
			return nil, err
		}
	}
	var out []Collected
	for _, n := range unneeded(byEpoch, readyAt, lock.Ready, before) {
		c := Collected{Epoch: n}
		for _, e := range byEpoch[n] {
			c.Files, c.Bytes = c.Files+1, c.Bytes+e.size
		}
		if !dry {
			if err := removeEpoch(ctx, s, byEpoch[n]); err != nil {
				return out, fmt.Errorf("delete epoch %d: %w", n, err)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// unneeded returns the epochs that can go, oldest first.
func unneeded(byEpoch map[int64][]entry, readyAt map[int64]time.Time, ready int64, before time.Time) []int64 {
	var complete []int64
	for n := range readyAt {
		if n <= ready {
			complete = append(complete, n)
		}
	}
	slices.Sort(complete)
	if len(complete) < keptEpochs {
		return nil
	}
	oldest := complete[len(complete)-keptEpochs] // that stays
	var out []int64
	for n := range byEpoch {
		if n >= oldest {
			continue
		}
		i, _ := slices.BinarySearch(complete, n+1) // the next that was complete
		if readyAt[complete[i]].Before(before) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// removeEpoch deletes epoch.json last: until then the rest can be found again.
func removeEpoch(ctx context.Context, s store, entries []entry) error {
	var last string
	for _, e := range entries {
		if n, ok := epochOf(e.key); ok && e.key == prefixOf(n)+"/epoch.json" {
			last = e.key
			continue
		}
		if err := s.remove(ctx, e.key); err != nil {
			return err
		}
	}
	if last == "" {
		return nil
	}
	return s.remove(ctx, last)
}
