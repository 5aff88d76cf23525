package s3server

import (
	"slices"
	"strings"
	"time"
)

// Op is a kind of request, as a test thinks of it.
type Op string

// The kinds.
const (
	Put    Op = "PUT" // of an object, a part or the begin and end of parts
	Get    Op = "GET" // HEAD included
	Delete Op = "DELETE"
	List   Op = "LIST"
	Other  Op = "OTHER" // of the bucket itself
)

// Action is what a fault does to a request.
type Action int

// The actions.
const (
	// Answer sends Status with an S3 error of Code, without the server.
	Answer Action = iota
	// CutBefore breaks the connection before the server sees the request.
	CutBefore
	// CutAfter lets the server do it and breaks the connection instead of
	// passing on its answer.
	CutAfter
	// Wait passes the request on after Delay.
	Wait
	// BlackHole reads the request and never answers.
	BlackHole
	// BlackHoleBody is BlackHole without reading the body.
	BlackHoleBody
	// Truncate passes on Bytes of the answer's body and breaks the connection.
	Truncate
	// Hang passes on Bytes of the answer's body and then nothing, not even an end.
	Hang
	// Unconditional takes the conditions out of a request, as a provider does
	// that does not know them.
	Unconditional
)

// Fault is a thing that goes wrong with the requests that it matches.
type Fault struct {
	Op     Op     // "": any
	Prefix string // of the key below the bucket; of a list: of its prefix
	Part   string // of the key, anywhere in it
	After  int    // so many that match are let through first
	Times  int    // then so many are hit; 0: all

	Do     Action
	Status int    // of Answer
	Code   string // of Answer; default a usual one for Status
	Body   string // of Answer; default an error with the code
	Delay  time.Duration
	Bytes  int64

	seen int
}

// matches reports whether f hits a request, and counts it.
func (f *Fault) matches(r Request) bool {
	if f.Op != "" && f.Op != r.Op || !strings.HasPrefix(r.Key, f.Prefix) || !strings.Contains(r.Key, f.Part) {
		return false
	}
	f.seen++
	return f.seen > f.After && (f.Times == 0 || f.seen <= f.After+f.Times)
}

// Inject adds a fault and returns what takes it away again. Of several that
// match a request the first counts.
func (p *Proxy) Inject(f Fault) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &f)
	return func() { p.remove(&f) }
}

// Down breaks every connection before the server sees its request, until up is
// called.
func (p *Proxy) Down() (up func()) {
	f := &Fault{Do: CutBefore}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = slices.Insert(p.faults, 0, f)
	return func() { p.remove(f) }
}

// Request is one request in the record, in the order in which they came.
type Request struct {
	Op     Op
	Key    string // of a list: the prefix that was asked for
	Status int    // 0: no answer was passed on
}

// Requests returns the record.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.record)
}

// Count returns how many requests of a kind there were below a prefix.
func (p *Proxy) Count(op Op, prefix string) int {
	n := 0
	for _, r := range p.Requests() {
		if (op == "" || r.Op == op) && strings.HasPrefix(r.Key, prefix) {
			n++
		}
	}
	return n
}

// Forget empties the record.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = nil
}
