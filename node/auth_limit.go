package node

import (
	"net/netip"
	"sync"
	"time"
)

// Limits on wrong tokens from one address. The secrets that a node makes
// cannot be guessed at any rate, so a right one is let in whatever else comes
// from its address: workers behind one proxy do not lock each other out.
const (
	failBurst    = 20              // wrong tokens that an address may send at once
	failEvery    = 3 * time.Second // in which one of them is forgotten
	failsTracked = 4096            // addresses; those beyond share one count
)

// failures counts wrong tokens by address, as a bucket that leaks.
type failures struct {
	now func() time.Time

	mu     sync.Mutex
	byAddr map[netip.Addr]*leak
	others leak
}

// leak is how full a bucket was at a time.
type leak struct {
	level float64
	at    time.Time
}

func newFailures(now func() time.Time) *failures {
	return &failures{now: now, byAddr: map[netip.Addr]*leak{}}
}

// add counts one, and reports whether it is one too many.
func (f *failures) add(remote string) bool {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.of(remote, now, true)
	l.level = min(l.levelAt(now)+1, failBurst+1)
	l.at = now
	return l.level > failBurst
}

// over reports whether the next one would be too many.
func (f *failures) over(remote string) bool {
	now := f.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of(remote, now, false).levelAt(now)+1 > failBurst
}

// of returns the bucket of an address, which is made if keep is set.
func (f *failures) of(remote string, now time.Time, keep bool) *leak {
	addr := networkOf(remote)
	if l := f.byAddr[addr]; l != nil {
		return l
	}
	if len(f.byAddr) >= failsTracked {
		for addr, l := range f.byAddr {
			if l.levelAt(now) == 0 {
				delete(f.byAddr, addr)
			}
		}
	}
	if len(f.byAddr) >= failsTracked {
		return &f.others
	}
	l := &leak{at: now}
	if keep {
		f.byAddr[addr] = l
	}
	return l
}

func (l *leak) levelAt(now time.Time) float64 {
	return max(0, l.level-float64(now.Sub(l.at))/float64(failEvery))
}

// networkOf is the address of a client, of IPv6 its /64, which one client has
// as a whole.
func networkOf(remote string) netip.Addr {
	addr, err := netip.ParseAddr(hostOf(remote))
	if err != nil {
		return netip.Addr{}
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if prefix, err := addr.Prefix(64); err == nil {
			return prefix.Addr()
		}
	}
	return addr
}
