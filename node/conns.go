package node

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// ownFiles is how many open files a node keeps for itself: the database, the
	// files of its copy, and the connections to the bucket.
	ownFiles = 128
	// metricsConns are the connections of the address of metrics, which has its
	// own: a node that is overrun can still be looked at.
	metricsConns = 32
	// fullEvery is how often, at most, it is said that there are too many.
	fullEvery = time.Minute
)

// connLimit bounds the connections of one or more listeners. Without it whoever
// opens enough of them takes the files that replication needs: what is
// acknowledged would be on this disk alone. A nil one bounds nothing.
type connLimit struct {
	free chan struct{} // has room for as many as may be open
	log  *slog.Logger

	mu   sync.Mutex
	told time.Time
}

// newConnLimit returns a limit for a process that may open so many files; 0:
// nobody knows, and there is none.
func newConnLimit(files uint64, log *slog.Logger) *connLimit {
	if files == 0 || files > 1<<24 {
		return nil
	}
	most := max(files/4, files-min(files, ownFiles+metricsConns))
	return &connLimit{free: make(chan struct{}, most), log: log}
}

// on returns l with the limit. Those beyond it wait until another is closed.
func (c *connLimit) on(l net.Listener) net.Listener {
	if c == nil {
		return l
	}
	return &limitedListener{Listener: l, limit: c, closed: make(chan struct{})}
}

// take waits for room, which free gives back, and returns false when closed is.
func (c *connLimit) take(closed <-chan struct{}) bool {
	select {
	case c.free <- struct{}{}:
		return true
	default:
	}
	c.full()
	select {
	case c.free <- struct{}{}:
		return true
	case <-closed:
		return false
	}
}

// full says that others wait.
func (c *connLimit) full() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.told.IsZero() || now.Sub(c.told) >= fullEvery {
		c.told = now
		c.log.Warn("too many connections: new ones wait until others are closed; raise the limit of open files (ulimit -n, LimitNOFILE=), or see who opens them", "connections", cap(c.free))
	}
}

type limitedListener struct {
	net.Listener
	limit  *connLimit
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	if !l.limit.take(l.closed) {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.limit.free
		return nil, err
	}
	return &limitedConn{Conn: conn, limit: l.limit}, nil
}

// Close implements [net.Listener].
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	limit *connLimit
	once  sync.Once
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.limit.free })
	return err
}
