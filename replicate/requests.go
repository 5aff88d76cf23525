package replicate

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Requests is how many requests were sent to a bucket, by the kinds that
// providers have prices for. Retries and the parts of an upload count, as they
// do on a bill.
type Requests struct {
	Put, Get, List, Delete int64
}

// requestKind is a kind of request with a price of its own.
type requestKind int

const (
	requestPut requestKind = iota
	requestGet
	requestList
	requestDelete
	requestKinds // how many there are
)

// counter counts requests by kind, for several clients at once.
type counter struct {
	sent  [requestKinds]atomic.Int64
	since atomic.Int64 // wall clock of the first, ms; 0: none was sent
}

// begun returns when the first request was sent; zero: none was.
func (c *counter) begun() time.Time {
	if ms := c.since.Load(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// snapshot returns the counts up to now.
func (c *counter) snapshot() Requests {
	return Requests{
		Put:    c.sent[requestPut].Load(),
		Get:    c.sent[requestGet].Load(),
		List:   c.sent[requestList].Load(),
		Delete: c.sent[requestDelete].Load(),
	}
}

// trace returns a context under which every HTTP request counts as kind. It
// looks at the transport, since what a library calls one upload may be many.
func (c *counter) trace(ctx context.Context, kind requestKind) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() {
			c.sent[kind].Add(1)
			if c.since.Load() == 0 {
				c.since.CompareAndSwap(0, time.Now().UnixMilli())
			}
		},
	})
}
