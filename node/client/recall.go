package client

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// recallTime is how long a claim that is called back may take to come back.
const recallTime = time.Second

// recall calls a claim back. To hang up would lose the jobs of an answer that is
// under way: the node sees it only later, and they would stay leased to nobody.
// So the client says that it sends nothing more, by closing its half of the
// connection, and goes on reading: the node then either gives the claim up or
// has answered it already. HTTP/2 has nothing like it once a request is sent, so
// claims over TLS have connections of their own, by HTTP/1.1.
type recall struct {
	mu     sync.Mutex
	conn   net.Conn // that the claim went to; nil before
	called bool
}

// recallable returns a context for a claim that outlives ctx for as long as it
// takes to call the claim back, and a func to call when the claim has returned.
func (c *Client) recallable(ctx context.Context) (claim context.Context, done func()) {
	if c.claims == nil { // what a caller's transport makes of a connection is not known
		return ctx, func() {}
	}
	r := &recall{}
	claim, cancel := context.WithCancel(context.WithoutCancel(ctx))
	returned, recalled := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(recalled)
		defer cancel()
		if r.call() {
			timer := time.NewTimer(recallTime)
			defer timer.Stop()
			select {
			case <-returned:
			case <-timer.C:
			}
		}
	})
	return httptrace.WithClientTrace(claim, &httptrace.ClientTrace{GotConn: r.got}), func() {
		close(returned)
		if !stop() {
			<-recalled
		}
		cancel()
	}
}

// got notes the connection, before anything is sent on it.
func (r *recall) got(info httptrace.GotConnInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conn = info.Conn
	if r.called {
		closeWrite(r.conn) // too late to send anything
	}
}

// call reports whether an answer may come still.
func (r *recall) call() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called = true
	return r.conn != nil && closeWrite(r.conn)
}

// closeWrite closes our half of a connection that serves one request at a time.
func closeWrite(conn net.Conn) bool {
	half, ok := conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
