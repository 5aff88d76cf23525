package replicate

import (
	"context"
	"errors"
	"io"

	"github.com/superfly/ltx"
)

// body is what OpenLTXFile returns. Its clock runs only while somebody reads: a
// caller may take its time between two reads.
type body struct {
	g     *guard
	ctx   context.Context
	w     *watchdog
	inner io.ReadCloser
}

// Read reads what comes within the deadline.
func (b *body) Read(p []byte) (int, error) {
	b.w.moved(b.g.opts.stall)
	n, err := b.inner.Read(p)
	b.w.pause()
	if n > 0 {
		b.g.opts.onBytes(int64(n))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.g.fail(b.ctx, RemoteGet, err)
	}
	return n, err
}

// Close ends the request, also one of which the answer was not read to its end.
func (b *body) Close() error {
	err := b.inner.Close()
	b.w.stop()
	return err
}

// LTXFiles lists the files of a level. Each page has a deadline of its own.
func (g *guard) LTXFiles(ctx context.Context, level int, seek ltx.TXID, useMetadata bool) (ltx.FileIterator, error) {
	ctx, w := watch(ctx, g.opts.call)
	itr, err := g.inner.LTXFiles(g.opts.counter.trace(ctx, requestList), level, seek, useMetadata)
	if err != nil {
		err = g.fail(ctx, RemoteList, err)
		w.stop()
		return nil, err
	}
	w.pause()
	return &listing{g: g, ctx: ctx, w: w, inner: itr}, nil
}

// listing is what LTXFiles returns.
type listing struct {
	g      *guard
	ctx    context.Context
	w      *watchdog
	inner  ltx.FileIterator
	err    error
	closed bool
}

// Next moves to the next file. It also ends when the inner iterator would go on
// after the deadline, which then made up the timestamps that it could not read.
func (l *listing) Next() bool {
	if l.closed || l.err != nil {
		return false
	}
	l.w.moved(l.g.opts.call)
	more := l.inner.Next()
	l.w.pause()
	err := l.inner.Err()
	if err == nil {
		err = l.ctx.Err()
	}
	l.err = l.g.fail(l.ctx, RemoteList, err)
	return more && l.err == nil
}

// Item returns the file that Next moved to.
func (l *listing) Item() *ltx.FileInfo { return l.inner.Item() }

// Err returns what ended the list too early.
func (l *listing) Err() error { return l.err }

// Close ends the list and returns what Err does.
func (l *listing) Close() error {
	if l.closed {
		return l.err
	}
	l.closed = true
	err := l.inner.Close()
	if l.err == nil {
		l.err = l.g.fail(l.ctx, RemoteList, err)
	}
	l.w.stop()
	return l.err
}
