package replicate

import (
	"time"

	"github.com/superfly/ltx"
)

// FollowStatus is how a follower gets on.
type FollowStatus struct {
	Position         // of the copy that is served, or that a standby keeps
	URL       string // of the root, without secrets
	Lineage   string
	Node      string // which has the root, by lock.json; empty: not known yet
	NodeURL   string // where it answers
	Ready     int64  // the epoch that is the truth, by lock.json; 0: not known yet
	Newest    uint64 // the newest TXID of that epoch that is known
	CheckedAt time.Time
	// Problem keeps the follower from going on; empty: none does. It tries again
	// by itself.
	Problem   string
	ProblemAt time.Time // since when
	// Seeding is how a copy gets on that is made anew; Total is 0 when none is.
	Seeding  Progress
	Requests Requests

	seedFrom  int64
	seedBegan time.Time
}

// Lag is how old the copy may be.
func (s *FollowStatus) Lag(now time.Time) time.Duration {
	if s.AsOf.IsZero() {
		return 0
	}
	return max(0, now.Sub(s.AsOf))
}

// Status returns how the follower gets on.
func (f *Follower) Status() FollowStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	if f.opts.Readers {
		s.Position = f.position()
	}
	if s.Seeding.Total > 0 {
		s.Seeding.Bytes, s.Seeding.Elapsed = min(f.read.Load()-s.seedFrom, s.Seeding.Total), time.Since(s.seedBegan)
	}
	s.URL, s.Requests = f.store.url(), f.store.requests().snapshot()
	return s
}

// Changed returns a channel that is closed when another state is served.
func (f *Follower) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Poke tells the follower what the primary has uploaded, by the primary's own
// word. Where the copy has that already it is known to be the newest now; else it
// is fetched at once. It never waits.
func (f *Follower) Poke(epoch int64, txid uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.position(); f.front != nil && p.Epoch == epoch && p.TXID >= txid {
		f.fresh = time.Now()
		return
	}
	f.tell(epoch, txid)
}

// Tell is Poke by a primary that has commits which it has not uploaded yet:
// to have all that was uploaded is then not to be the newest.
func (f *Follower) Tell(epoch int64, txid uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.position(); f.front == nil || p.Epoch != epoch || p.TXID < txid {
		f.tell(epoch, txid)
	}
}

// tell has a position fetched; f.mu is held.
func (f *Follower) tell(epoch int64, txid uint64) {
	f.hint = hint{epoch, ltx.TXID(txid)}
	if epoch == f.status.Ready {
		f.status.Newest = max(f.status.Newest, txid)
	}
	signal(f.woken)
}

// Subscribed says whether positions come by Poke, so that the root needs to be
// looked at only now and then. When they stop coming it looks at once.
func (f *Follower) Subscribed(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscribed && !yes {
		signal(f.woken)
	}
	f.subscribed = yes
}

// note keeps the outcome of a step, and logs a change.
func (f *Follower) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keepPosition()
	s := &f.status
	switch {
	case err != nil:
		if s.Problem == "" {
			s.ProblemAt = time.Now()
			f.log.Warn("the copy is held up", "err", err)
		}
		s.Problem = err.Error()
	case s.Problem != "":
		s.Problem, s.ProblemAt = "", time.Time{}
		f.log.Info("the copy goes on")
	}
}

// keepPosition keeps how far a copy without readers is; f.mu is held.
func (f *Follower) keepPosition() {
	s := &f.status
	s.Lineage, s.Ready = f.root.Lineage, f.root.Ready
	if c := f.back; c != nil && (c.whole() || f.opts.Readers) {
		s.Seeding.Total = 0
		if !f.opts.Readers {
			s.Position = Position{Epoch: c.state.Epoch, TXID: uint64(c.state.TXID), AsOf: time.UnixMilli(c.state.MadeMS)}
			if f.fresh.After(s.AsOf) {
				s.AsOf = f.fresh
			}
		}
	}
}

// listed notes the newest transaction of the replica.
func (f *Follower) listed(last ltx.TXID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status.Ready != f.root.Ready {
		f.status.Newest = 0
	}
	f.status.Ready, f.status.Newest = f.root.Ready, max(uint64(last), f.status.Newest)
}

// isNewest notes that a look at the root found nothing newer, and that the
// primary was alive at a time; zero: that is not known.
func (f *Follower) isNewest(alive time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.CheckedAt = f.asked
	if alive.After(f.fresh) {
		f.fresh = alive
	}
}

// seeding notes what is to be read for a new copy.
func (f *Follower) seeding(links []*ltx.FileInfo) {
	if f.back.state.TXID > 0 {
		return
	}
	var total int64
	for _, l := range links {
		total += l.Size
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Seeding.Total, f.status.seedFrom, f.status.seedBegan = total, f.read.Load(), time.Now()
	f.log.Info("making a new copy", "epoch", f.back.state.Epoch, "files", len(links), "bytes", total)
}
