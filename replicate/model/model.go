// The executable specification of who may write to a root, and of what a boot
// does: every interleaving of two nodes with a few jobs, epochs and faults is
// tried. `go run ./replicate/model -faults 2` takes half a minute; README.md
// beside this file says what is checked, and what each flag is for.
//
// A database is the sequence of jobs committed to it (a nibble each); its length stands for the TXID.
// Pauses, zombies and S3 outages need no action of their own: a process may simply not step, for ever.
package main

import (
	"fmt"
	"math/bits"
)

const maxE = 6

type db uint16

func (d db) len() int       { return (bits.Len16(uint16(d)) + 3) / 4 }
func (d db) at(i int) uint8 { return uint8(d>>(4*i)) & 15 }
func (d db) cut(n int) db   { return d & (1<<(4*n) - 1) }
func (d db) mask() (m uint8) {
	for i := 0; i < d.len(); i++ {
		m |= 1 << d.at(i)
	}
	return
}

type lock struct {
	epoch, sess, ready, node uint8
	closed                   bool
	pos                      uint8
}
type disk struct {
	has   bool   // there is a database file
	same  bool   // boot id and inode in node.json are those of here and now
	live  bool   // node.json: its epoch was ready and served here
	adopt bool   // node.json: adopt is under way
	epoch uint8  // node.json
	mine  uint16 // sessions this directory has sent to lock.json (node.json)
	db    db
	copy  standby
}
type standby struct { // a copy of an epoch's prefix that a standby keeps up to date
	of uint8
	db db
}
type proc struct {
	pc, path, epoch, sess, ready, stage, rlen, rpos uint8
	fresh                                           bool // my ETag is still the lock's
	set                                             bool // the file is restored, node.json does not say so yet
}
type prefix struct {
	done, mixed bool
	db          db
}
type put struct { // a request that was given up by its sender and may still land
	epoch, from uint8
	db          db
}
type cas struct {
	on bool
	l  lock
}
type state struct {
	l        lock
	d        [2]disk
	p        [2]proc
	pre      [maxE + 1]prefix
	put      [2]put
	cas      [2]cas
	snap     disk // an old copy of a disk
	snapOf   uint8
	ackR     uint8    // jobs acknowledged as replicated
	excused  uint8    // jobs an operator gave up by adopt
	ackL     [2]uint8 // jobs acknowledged as local by the disk of a machine, nobody having taken over since
	lastSess uint8    // the newest session that began to serve, and with what
	lastMask uint8
	faults   uint8
	used     uint8 // jobs clients have sent
	vp       proc  // a memory image (VM snapshot)
	vd       disk
	vm       uint8
}

const (
	down = iota
	boot
	swap
	record
	check
	aside
	restore
	base
	ready
	start
	serve
	refused
)

const (
	pathS = iota // same epoch, same prefix
	pathN        // next epoch, my file is its base
	pathT        // next epoch, restore from ready
)

type config struct {
	match                                                                                                    string // session | epoch
	intent, fence1st, sReady, sNew, get, getSess, lateT, ifNone, casOK                                       bool
	clone, old, inplace, vmrev, lost, delay, auto, closing, offline, behind, adopt, allSame, follow, catchUp bool
	names                                                                                                    [2]uint8
	jobs, faults, epochs                                                                                     int
}

var c config

type succ struct {
	s    state
	name string
	bad  string
}

// put writes entries from+1..len into a prefix, as an unconditional PUT of each LTX file does.
func (s *state) write(e uint8, from int, d db) bool {
	x := &s.pre[e]
	for i := from; i < d.len(); i++ {
		switch h := x.db.len(); {
		case i < h && x.db.at(i) == d.at(i) && x.db.cut(i) == d.cut(i):
		case i < h && c.ifNone:
			return false
		case i < h:
			x.db = x.db&^(15<<(4*i)) | db(d.at(i))<<(4*i)
			x.mixed = true
		case i == h:
			if x.db != d.cut(i) {
				x.mixed = true
			}
			x.db |= db(d.at(i)) << (4 * i)
		default:
			x.mixed = true
		}
	}
	return true
}

// setLock is a compare-and-swap that succeeded: everybody else's ETag is old now.
func (s *state) setLock(m int, l lock) {
	if c.casOK {
		s.p[1-m].fresh = false
		s.cas[0].on, s.cas[1].on = false, false
	}
	if l.sess != s.l.sess {
		s.ackL[1-m] = 0
	}
	s.l = l
}

func relation(local, replica db) int { // 0 same or ahead, 1 behind, 2 differs
	switch {
	case local.cut(replica.len()) == replica:
		return 0
	case replica.cut(local.len()) == local:
		return 1
	}
	return 2
}

// next gives the steps of machine m; faulty ones only when the budget allows.
func next(s0 state, m int, faults bool, emit func(succ)) {
	s := s0
	p, d := &s.p[m], &s.d[m]
	bad := ""
	out := func(name string) {
		emit(succ{s, fmt.Sprintf("%c: %s", 'A'+m, name), bad})
		s, bad = s0, ""
	}
	mine := func() bool { return s.l.epoch == p.epoch && (s.l.sess == p.sess || !c.getSess) }
	switch p.pc {
	case down:
		p.pc = boot
		out("start")
		if k := s0.pre[s0.l.ready].db; faults && c.adopt && k != 0 && int(s0.l.epoch) < c.epochs {
			p.pc, p.path, p.fresh, p.sess = swap, pathN, true, s.freshSess()
			*d = disk{has: true, db: k.cut(k.len() - 1), mine: 1 << p.sess, adopt: true}
			s.ackL[m] = 0
			s.faults--
			out("adopts a file without the newest job")
		}
	case boot:
		if now := (standby{s.l.ready, s.pre[s.l.ready].db}); c.follow && d.copy != now && d.mine>>s.l.sess&1 == 0 {
			d.copy = now
			out("the standby brings its copy up to date")
		}
		if c.offline && d.live && d.has && d.same && d.db.len() < c.jobs {
			commits(s0, m, emit)
		}
		own := d.has && d.mine>>s.l.sess&1 == 1
		if c.match == "epoch" {
			own = d.has && s.l.node == c.names[m] && s.l.epoch == d.epoch
		}
		dead := c.allSame || d.same || s.l.closed && int(s.l.pos) == d.db.len()
		p.path = pathT
		if own && dead && (s.l.ready == s.l.epoch || !c.sReady) {
			p.path = pathS
		} else if own {
			p.path = pathN
		}
		if p.path != pathS && int(s.l.epoch) >= c.epochs {
			return // bound
		}
		if c.auto && p.path == pathT && s.p[1-m].pc == serve && s.l.sess == s.p[1-m].sess && !s.l.closed {
			return // clocks hold: the holder's validity ends (it stops) before a challenger may try
		}
		p.pc, p.fresh, p.set, p.sess = swap, true, false, s.freshSess()
		if c.intent && (own || !c.lateT) {
			d.mine |= 1 << p.sess
		}
		if !c.fence1st && own {
			switch relation(d.db, s.pre[s.l.ready].db) {
			case 1:
				p.path = pathT
			case 2:
				p.pc = refused
			}
		}
		out("reads the lock, path " + []string{"same epoch", "next epoch with my file", "takeover"}[p.path])
	case swap:
		if !p.fresh && c.casOK {
			p.pc = boot
			out("CAS refused")
			return
		}
		n := s.l
		n.sess, n.closed, n.pos, n.node = p.sess, false, 0, c.names[m]
		if p.path != pathS {
			n.epoch++
		}
		p.epoch, p.ready, p.pc = n.epoch, n.ready, record
		s.setLock(m, n)
		out(fmt.Sprintf("CAS lock epoch=%d session=%d ready=%d", n.epoch, n.sess, n.ready))
		if faults && c.delay && !s0.cas[m].on {
			s.cas[m] = cas{true, n}
			p.pc, p.fresh = boot, false
			s.faults--
			out("CAS times out and may land later")
		}
	case record:
		p.pc = check
		if p.path == pathT && c.lateT && !p.set {
			p.pc = aside
			next(s, m, faults, emit)
			return
		}
		if p.path == pathT {
			p.pc = aside
		}
		if p.set {
			p.pc = base
			if p.path == pathS {
				p.pc = start
			}
			p.set = false
		}
		*d = disk{has: d.has, db: d.db, copy: d.copy, adopt: d.adopt, epoch: p.epoch, mine: d.mine | 1<<p.sess, same: true}
		out("writes node.json")
	case check:
		p.rpos = uint8(s.pre[p.ready].db.len())
		switch r := relation(d.db, s.pre[p.ready].db); {
		case !c.fence1st || r == 0 || d.adopt && p.ready != p.epoch:
			p.pc = base
			if p.path == pathS {
				p.pc = start
			}
		case r == 1 && c.behind:
			p.pc = aside
			if p.path == pathS && c.sNew {
				d.has = false
				p.pc = boot
			}
		case r == 2:
			p.pc = refused
		default:
			p.pc = base
		}
		out("compares the local file with ready")
	case aside:
		*d = disk{copy: d.copy}
		p.pc = restore
		out("sets local files aside")
	case restore:
		if s.pre[p.ready].mixed {
			bad = "P1: ready is a mixture of two histories"
		}
		d.has, d.db = true, s.pre[p.ready].db
		if c.follow && !c.catchUp && d.copy.of == p.ready {
			d.db = d.copy.db
		}
		d.copy = standby{}
		p.rpos = uint8(d.db.len())
		p.pc = record
		p.set = true
		out("restores from ready")
	case base:
		x := &s.pre[p.epoch]
		if x.done && x.db != d.db {
			x.mixed = true
		}
		x.done, x.db = true, d.db
		p.rpos, p.pc = uint8(d.db.len()), ready
		out("uploads the base")
	case ready:
		if !p.fresh && c.casOK {
			p.pc = down
			out("ready refused, stops")
			return
		}
		n := s.l
		if !c.casOK {
			n.epoch, n.sess, n.node = p.epoch, p.sess, c.names[m]
		}
		n.ready = p.epoch
		s.setLock(m, n)
		if d.adopt {
			s.excused |= ^d.db.mask()
			s.ackR &^= s.excused
			s.ackL[m] &^= s.excused
		}
		p.pc = start
		out(fmt.Sprintf("CAS ready=%d", p.epoch))
	case start:
		p.pc = serve
		d.live, d.adopt = c.offline, false
		if s.l.epoch == p.epoch && s.l.sess == p.sess {
			k := d.db.mask()
			switch {
			case s.ackR&^k != 0:
				bad = "P1: serves without a replicated job"
			case s.ackL[m]&^k != 0:
				bad = "P3: serves without a job acknowledged as local here"
			case relation(d.db, s.pre[s.l.ready].db) != 0 && !s.pre[s.l.ready].mixed:
				bad = "P4: serves a state older than ready"
			}
			s.lastSess, s.lastMask = p.sess, k
		}
		out("serves")
	case serve:
		commits(s0, m, emit)
		switch p.stage {
		case 0:
			if int(p.rpos) < d.db.len() {
				p.stage, p.rlen = 1, uint8(d.db.len())
				if !s.write(p.epoch, int(p.rpos), d.db) {
					p.pc = down
				}
				p.rpos = p.rlen
				if !c.get {
					p.stage = 2
				}
				out("PUT ok")
				if faults && c.delay && s0.put[m].epoch == 0 {
					s.put[m] = put{p.epoch, p.rpos, d.db}
					s.faults--
					out("PUT times out and may land later")
				}
			}
			if c.closing && p.fresh && s0.pre[p.epoch].db == d.db && !s0.l.closed {
				n := s.l
				n.closed, n.pos = true, uint8(d.db.len())
				s.setLock(m, n)
				p.pc = down
				out("handover: closes")
			}
		case 1:
			p.stage = 2
			if !mine() {
				p.pc = down
			}
			out("GET lock: " + map[bool]string{true: "mine", false: "not mine, stops"}[p.pc != down])
		case 2:
			p.stage = 0
			k := d.db.cut(int(p.rlen)).mask()
			if p.sess != s.lastSess && k&^s.lastMask&^s.ackR&^s.excused != 0 {
				bad = "P2: acknowledged after a later primary began without it"
			}
			s.ackR |= k &^ s.excused
			out("acknowledges as replicated")
		}
	}
	if q := s.put[m]; q.epoch != 0 {
		s.put[m] = put{}
		s.write(q.epoch, int(q.from), q.db)
		out("the old PUT lands")
	}
	if s.cas[m].on {
		n := s.cas[m].l
		s.p[m].fresh = false
		s.setLock(m, n)
		out(fmt.Sprintf("the old CAS lands epoch=%d session=%d", n.epoch, n.sess))
	}
	if faults {
		fail(s0, m, emit)
	}
}

func commits(s0 state, m int, emit func(succ)) {
	for j := uint8(1); j <= uint8(c.jobs) && j <= s0.used+1; j++ {
		s := s0
		d := &s.d[m]
		if d.db.mask()>>j&1 == 1 {
			continue
		}
		d.db |= db(j) << (4 * d.db.len())
		if d.mine>>s.l.sess&1 == 1 && s.excused>>j&1 == 0 { // nobody took over
			s.ackL[m] |= 1 << j
		}
		if j > s.used {
			s.used = j
		}
		emit(succ{s, fmt.Sprintf("%c: commits job %d, acknowledged as local", 'A'+m, j), ""})
	}
}
