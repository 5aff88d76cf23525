package replicate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// Epoch is a prefix of a root.
type Epoch struct {
	Epoch      int64
	Ready      bool      // it is the truth: a node that restores takes this one
	Complete   bool      // it was ready once; the fields up to ReadyAt are known
	Parent     int64     // 0: none
	ParentTXID uint64    // how far the parent counts
	ReadyAt    time.Time // by the clock of its primary
	Files      int
	Bytes      int64
	// MinTXID is the first that a restore can end at, MaxTXID the last; both 0
	// where there is nothing to restore.
	MinTXID, MaxTXID uint64
	LastWrite        time.Time // of a file; zero: there is none
	LastSnapshot     time.Time // of a whole copy after the base; zero: none yet
}

// PrefixURL names the prefix of an epoch for people, without secrets.
func (c Config) PrefixURL(epoch int64) string {
	c.Replica = c.Replica.below(prefixOf(epoch))
	return c.ReplicaURL()
}

// StockFor is [Config.Stock] for the prefix of an epoch.
func (c Config) StockFor(dbPath string, epoch int64) []byte { return c.Stock(dbPath, prefixOf(epoch)) }

// below returns the replica with its path in a folder of r's.
func (r Replica) below(folder string) Replica {
	r.Path = strings.TrimPrefix(strings.TrimSuffix(r.Path, "/")+"/"+folder, "/")
	return r
}

// List returns what is in a root: its lock.json, and its epochs, newest first.
// Errors: ErrNoLock, ErrNewer, a *RemoteError.
func List(ctx context.Context, r Replica, log *slog.Logger) (Lock, []Epoch, error) {
	s, err := openStoreToRead(ctx, r, log)
	if err != nil {
		return Lock{}, nil, err
	}
	defer s.close()
	lock, err := readLock(ctx, s)
	if err != nil {
		return Lock{}, nil, err
	}
	entries, err := s.list(ctx, "")
	if err != nil {
		return Lock{}, nil, err
	}
	found := map[int64]*Epoch{}
	for _, e := range entries {
		n, ok := epochOf(e.key)
		if !ok {
			continue
		}
		if found[n] == nil {
			found[n] = &Epoch{Epoch: n, Ready: n == lock.Ready}
		}
		found[n].Files++
		found[n].Bytes += e.size
	}
	epochs := make([]Epoch, 0, len(found))
	for _, e := range found {
		if err := e.read(ctx, s); err != nil {
			return Lock{}, nil, fmt.Errorf("list epoch %d: %w", e.Epoch, err)
		}
		epochs = append(epochs, *e)
	}
	slices.SortFunc(epochs, func(a, b Epoch) int { return cmp.Compare(b.Epoch, a.Epoch) })
	return lock.Lock, epochs, nil
}

// epochOf returns the epoch to which a key belongs.
func epochOf(key string) (n int64, ok bool) {
	folder, _, found := strings.Cut(key, "/")
	if !found {
		return 0, false
	}
	if _, err := fmt.Sscanf(folder, "e%d", &n); err != nil || prefixOf(n) != folder {
		return 0, false
	}
	return n, true
}

// read fills in what epoch.json and the files say.
func (e *Epoch) read(ctx context.Context, s store) error {
	switch info, err := readEpoch(ctx, s, e.Epoch); {
	case err == nil:
		e.Complete, e.Parent, e.ParentTXID, e.ReadyAt = true, info.Parent, info.ParentTXID, time.UnixMilli(info.ReadyAtMS)
	case !errors.Is(err, errNoObject):
		return err
	}
	client, err := s.client(prefixOf(e.Epoch))
	if err != nil {
		return err
	}
	guarded := newGuard(client, guardOptions{url: s.url(), counter: s.requests()})
	for level := range litestream.SnapshotLevel + 1 {
		if err := e.readLevel(ctx, guarded, level); err != nil {
			return err
		}
	}
	return nil
}

func (e *Epoch) readLevel(ctx context.Context, client litestream.ReplicaClient, level int) error {
	itr, err := client.LTXFiles(ctx, level, 0, false)
	if err != nil {
		return err
	}
	defer itr.Close()
	for itr.Next() {
		f := itr.Item()
		// Only a file that begins at 1 is whole; the others go on from it.
		if first := uint64(f.MaxTXID); f.MinTXID == 1 && (e.MinTXID == 0 || first < e.MinTXID) {
			e.MinTXID = first
		}
		e.MaxTXID = max(e.MaxTXID, uint64(f.MaxTXID))
		if f.CreatedAt.After(e.LastWrite) {
			e.LastWrite = f.CreatedAt
		}
		if level == litestream.SnapshotLevel && f.CreatedAt.After(e.LastSnapshot) {
			e.LastSnapshot = f.CreatedAt
		}
	}
	return errors.Join(itr.Err(), itr.Close())
}

func readEpoch(ctx context.Context, s store, epoch int64) (epochInfo, error) {
	var info epochInfo
	key := prefixOf(epoch) + "/epoch.json"
	o, err := s.get(ctx, key)
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(o.data, &info); err != nil {
		return info, fmt.Errorf("%s cannot be read: %w", key, err)
	}
	return info, nil
}

// epochAt chooses what to restore for a time: the last epoch that was ready by
// then, up to where its child goes on from it. What it holds beyond that was
// written by a primary that had lost its place.
func epochAt(ctx context.Context, s store, to target) (int64, target, error) {
	entries, err := s.list(ctx, "")
	if err != nil {
		return 0, to, err
	}
	var at epochInfo
	var earliest time.Time
	cuts := map[int64]ltx.TXID{} // where a child that became ready goes on from its parent
	for _, e := range entries {
		n, ok := epochOf(e.key)
		if !ok || e.key != prefixOf(n)+"/epoch.json" {
			continue
		}
		info, err := readEpoch(ctx, s, n)
		if err != nil {
			return 0, to, err
		}
		if cut := ltx.TXID(info.ParentTXID); cut > 0 {
			cuts[info.Parent] = max(cut, cuts[info.Parent])
		}
		if since := time.UnixMilli(info.ReadyAtMS); info.ReadyAtMS > 0 && (earliest.IsZero() || since.Before(earliest)) {
			earliest = since
		}
		if !time.UnixMilli(info.ReadyAtMS).After(to.at) && n > at.Epoch {
			at = info
			at.Epoch = n
		}
	}
	if at.Epoch == 0 {
		err := fmt.Errorf("%s has no epoch that was ready at %s", s.url(), to.at.Format(time.RFC3339))
		if !earliest.IsZero() {
			err = fmt.Errorf("%w; its first begins at %s, and `holdfast replica ls` lists them", err, earliest.UTC().Format(time.RFC3339))
		}
		return 0, to, err
	}
	cut, ok := cuts[at.Epoch]
	if !ok {
		return at.Epoch, to, nil
	}
	client, err := s.client(prefixOf(at.Epoch))
	if err != nil {
		return 0, to, err
	}
	guarded := newGuard(client, guardOptions{url: s.url(), counter: s.requests()})
	plan, err := litestream.CalcRestorePlan(ctx, guarded, 0, to.at, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, to, fmt.Errorf("look for epoch %d at %s: %w", at.Epoch, to.at.Format(time.RFC3339), err)
	}
	if plan[len(plan)-1].MaxTXID > cut {
		to.txid, to.at = cut, time.Time{}
	}
	return at.Epoch, to, nil
}
