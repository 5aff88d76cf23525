// The search: breadth first over all interleavings, the shortest counterexample first.
package main

import (
	"flag"
	"fmt"
	"hash/maphash"
	"math/bits"
	"os"
	"slices"
	"strings"
)

func (s *state) freshSess() uint8 {
	u := uint16(1)
	for _, x := range []uint8{s.l.sess, s.p[0].sess, s.p[1].sess, s.cas[0].l.sess, s.cas[1].l.sess, s.lastSess, s.vp.sess} {
		u |= 1 << x
	}
	u |= s.d[0].mine | s.d[1].mine | s.snap.mine | s.vd.mine
	return uint8(bits.TrailingZeros16(^u))
}

// canon forgets sessions that can never be seen in the lock again.
func (s *state) canon() {
	for m := range s.p {
		if s.p[m].pc == down || s.p[m].pc == refused {
			s.p[m] = proc{pc: s.p[m].pc}
		}
		if !s.cas[m].on {
			s.cas[m] = cas{}
		}
		if !s.d[m].has {
			s.d[m].db = 0
		}
	}
	live := uint16(0)
	for _, x := range []uint8{s.l.sess, s.p[0].sess, s.p[1].sess, s.cas[0].l.sess, s.cas[1].l.sess, s.vp.sess} {
		live |= 1 << x
	}
	if live>>s.lastSess&1 == 0 {
		s.lastSess = 0
	}
	live &^= 1
	for _, d := range []*disk{&s.d[0], &s.d[1], &s.snap, &s.vd} {
		d.mine &= live
	}
	var to [16]uint8
	n := uint8(1)
	for i := 1; i < 16; i++ {
		if live>>i&1 == 1 {
			to[i] = n
			n++
		}
	}
	for _, x := range []*uint8{&s.l.sess, &s.p[0].sess, &s.p[1].sess, &s.cas[0].l.sess, &s.cas[1].l.sess, &s.vp.sess, &s.lastSess} {
		*x = to[*x]
	}
	for _, d := range []*disk{&s.d[0], &s.d[1], &s.snap, &s.vd} {
		var k uint16
		for i := 1; i < 16; i++ {
			if d.mine>>i&1 == 1 {
				k |= 1 << to[i]
			}
		}
		d.mine = k
	}
}

// recovers asks whether one of the machines, running alone and without faults, comes to serve.
func recovers(s state) bool {
	for m := 0; m < 4; m++ {
		t := s
		if m > 1 { // somebody restarts it
			t.p = [2]proc{}
		}
		m := m % 2
		e := c.epochs
		c.epochs = maxE
		for i := 0; i < 40; i++ {
			if t.p[m].pc == serve && t.p[m].epoch == t.l.epoch && t.p[m].sess == t.l.sess {
				c.epochs = e
				return true
			}
			moved := false
			u := t
			u.p[1-m] = proc{}
			next(u, m, false, func(x succ) {
				if !moved && !strings.Contains(x.name, "closes") || strings.Contains(x.name, "GET") || strings.Contains(x.name, "PUT ok") || strings.Contains(x.name, "acknowledges as") {
					t, moved = x.s, true
				}
			})
			if !moved {
				break
			}
			t.canon()
		}
		c.epochs = e
	}
	return false
}

func main() {
	text, holds := run(os.Args[1:])
	fmt.Print(text)
	if !holds {
		os.Exit(1)
	}
}

// run searches with the flags in args. It says whether the protocol holds, and
// else the shortest way to where it does not.
func run(args []string) (text string, holds bool) {
	c = config{names: [2]uint8{1, 2}}
	fs := flag.NewFlagSet("model", flag.ExitOnError)
	rules(fs)
	faults(fs)
	same := fs.Bool("same-name", true, "both machines bear one name")
	most := fs.Int("max", 60e6, "states at most")
	only := fs.String("only", "", "ignore violations that do not begin so")
	_ = fs.Parse(args) // it exits by itself
	if *same {
		c.names[1] = 1
	}
	return search(*most, *only)
}

// rules are those of the protocol, each to be switched off.
func rules(fs *flag.FlagSet) {
	fs.StringVar(&c.match, "match", "session", "who owns the lock: session (node.json) or epoch (node name and epoch)")
	fs.BoolVar(&c.intent, "intent", true, "node.json gets the new session before the CAS")
	fs.BoolVar(&c.lateT, "late-takeover", true, "a takeover writes node.json only when the restored file is in place")
	fs.BoolVar(&c.fence1st, "fence-first", true, "compare with ready after the CAS, not before it")
	fs.BoolVar(&c.sReady, "same-needs-ready", true, "resume in the same epoch only when ready == epoch")
	fs.BoolVar(&c.sNew, "behind-new-epoch", true, "a file that is behind never goes on in the same prefix")
	fs.BoolVar(&c.behind, "behind-check", true, "a file that is behind is replaced at all")
	fs.BoolVar(&c.get, "get", true, "GET lock.json before acknowledging")
	fs.BoolVar(&c.getSess, "get-session", true, "the GET compares the session too")
	fs.BoolVar(&c.ifNone, "if-none-match", false, "LTX files are PUT with If-None-Match")
	fs.BoolVar(&c.casOK, "cas", true, "the provider honours If-Match")
	fs.BoolVar(&c.allSame, "always-same", false, "never an epoch of its own for a rebooted or copied directory")
	fs.BoolVar(&c.catchUp, "catch-up", true, "a standby's copy is brought up to date after the CAS, before it becomes the database")
}

// faults are those that may happen, and what a node does besides the protocol.
func faults(fs *flag.FlagSet) {
	fs.IntVar(&c.jobs, "jobs", 2, "jobs that are enqueued")
	fs.IntVar(&c.faults, "faults", 3, "faults that happen at most")
	fs.IntVar(&c.epochs, "epochs", 3, "epochs that are given out at most")
	fs.BoolVar(&c.clone, "clone", true, "fault: disk cloned to the other machine")
	fs.BoolVar(&c.old, "old", false, "fault: old copy of a disk put back")
	fs.BoolVar(&c.inplace, "inplace", false, "the old copy keeps boot id and inode")
	fs.BoolVar(&c.vmrev, "vm", false, "fault: VM reverted with its memory")
	fs.BoolVar(&c.lost, "lost", true, "fault: disk lost")
	fs.BoolVar(&c.delay, "delay", true, "fault: PUT or CAS times out and lands later")
	fs.BoolVar(&c.auto, "clocks", false, "auto mode with honest clocks")
	fs.BoolVar(&c.closing, "closing", true, "handover")
	fs.BoolVar(&c.adopt, "adopt", false, "operator: adopt, of a file that lacks the newest job")
	fs.BoolVar(&c.offline, "offline", false, "a directory that is surely its own serves local work before it reaches S3")
	fs.BoolVar(&c.follow, "follow", false, "a standby keeps a copy, which becomes the database at a takeover")
}

// begin is the state in which A serves epoch 1.
func begin() state {
	s := state{faults: uint8(c.faults), lastSess: 1}
	s.l = lock{epoch: 1, sess: 1, ready: 1, node: 1}
	s.d[0] = disk{has: true, same: true, live: c.offline, epoch: 1, mine: 2}
	s.p[0] = proc{pc: serve, epoch: 1, sess: 1, ready: 1, fresh: true}
	s.pre[1].done = true
	return s
}

// visited is every state that was reached, and how.
type visited struct {
	all  []state
	from []uint32
	how  []string
}

// way is how state k was reached, and what became of it.
func (v *visited) way(k int, bad, last string) string {
	way := []string{last}
	for x := uint32(k); ; x = v.from[x] {
		way = append(way, v.how[x])
		if x == 0 {
			break
		}
	}
	slices.Reverse(way)
	return fmt.Sprintf("VIOLATION %s after %d states\n   %s\n", bad, len(v.all), strings.Join(way, "\n   "))
}

func search(most int, only string) (text string, holds bool) {
	seed := maphash.MakeSeed()
	first := begin()
	seen := map[uint64]struct{}{maphash.Comparable(seed, first): {}} // 64-bit hashes: a collision hides a state with odds of about n²/2⁶⁵
	v := &visited{[]state{first}, []uint32{0}, []string{"A serves epoch 1"}}
	names := map[string]string{}
	stuck := 0
	for k := 0; k < len(v.all) && text == ""; k++ {
		s := v.all[k]
		if (s.p[0].pc == refused || s.p[1].pc == refused || k%64 == 0) && !recovers(s) {
			if stuck++; only == "P5" {
				return v.way(k, "P5: nobody can serve", ""), false
			}
		}
		for m := range 2 {
			next(s, m, s.faults > 0, func(x succ) {
				if x.bad != "" && strings.HasPrefix(x.bad, only) && text == "" {
					text = v.way(k, x.bad, x.name)
				}
				x.s.canon()
				h := maphash.Comparable(seed, x.s)
				if _, ok := seen[h]; ok || len(v.all) >= most {
					return
				}
				n, ok := names[x.name]
				if !ok {
					n, names[x.name] = x.name, x.name
				}
				seen[h] = struct{}{}
				v.all, v.from, v.how = append(v.all, x.s), append(v.from, uint32(k)), append(v.how, n)
			})
		}
	}
	if text != "" {
		return text, false
	}
	return fmt.Sprintf("holds: %d states (complete: %v), no recovery from %d of the sampled\n", len(v.all), len(v.all) < most, stuck), true
}
