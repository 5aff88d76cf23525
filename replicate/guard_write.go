package replicate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/superfly/ltx"
)

const (
	// maxFirst is the largest file that is put only where none is, in bytes. It
	// is held in memory; nearly all commits are far smaller.
	maxFirst = 1 << 20
	// partSize is the least that Litestream's client buffers of a stream before
	// it sends anything, in bytes.
	partSize = 5 << 20
)

// firstWriter puts files of Litestream's where none is.
type firstWriter interface {
	// putLTX returns errCondition if there is a file, which may be our own, of
	// an earlier try.
	putLTX(ctx context.Context, key string, data []byte, created time.Time) error
	// get reads it back.
	get(ctx context.Context, key string) (object, error)
}

// WriteLTXFile writes a file, with the fence before and after it: what was
// written by one who lost its place counts as not written.
func (g *guard) WriteLTXFile(ctx context.Context, level int, minTXID, maxTXID ltx.TXID, r io.Reader) (*ltx.FileInfo, error) {
	key := fmt.Sprintf("%04x/%s", level, ltx.FormatFilename(minTXID, maxTXID))
	if err := g.opts.check(); err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	info := &ltx.FileInfo{Level: level, MinTXID: minTXID, MaxTXID: maxTXID}
	err := g.write(ctx, key, info, r)
	if fence := g.opts.check(); fence != nil {
		return nil, fmt.Errorf("write %s: %w", key, fence)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", key, err)
	}
	return info, nil
}

// write chooses the way of a file and fills info.
func (g *guard) write(ctx context.Context, key string, info *ltx.FileInfo, r io.Reader) error {
	if info.Level == 0 && g.first != nil && !g.plain.Load() {
		data, rest, err := readSmall(r, maxFirst)
		if err != nil {
			return err
		}
		if rest == nil {
			err := g.writeFirst(ctx, g.opts.prefix+"/"+key, info, data)
			if !isNotImplemented(err) {
				return err
			}
			g.plain.Store(true)
			rest = bytes.NewReader(data)
		}
		r = rest
	}
	return g.upload(ctx, info, r)
}

// readSmall returns what r holds, or, where that is more than limit bytes, a
// reader of it all. A file stays a file, from which the client sends parts
// without copies of them.
func readSmall(r io.Reader, limit int64) (data []byte, rest io.Reader, err error) {
	if s, ok := r.(io.Seeker); ok {
		if start, err := s.Seek(0, io.SeekCurrent); err == nil {
			end, err := s.Seek(0, io.SeekEnd)
			if err != nil {
				return nil, nil, fmt.Errorf("size of the file: %w", err)
			}
			if _, err := s.Seek(start, io.SeekStart); err != nil {
				return nil, nil, fmt.Errorf("rewind the file: %w", err)
			}
			if end-start > limit {
				return nil, r, nil
			}
		}
	}
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the file: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, io.MultiReader(bytes.NewReader(data), r), nil
	}
	return data, nil, nil
}

// writeFirst puts a file where none is. One that is there is ours if it has the
// same bytes; else somebody else writes into this prefix.
func (g *guard) writeFirst(ctx context.Context, key string, info *ltx.FileInfo, data []byte) error {
	header, _, err := ltx.PeekHeader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("header of the file: %w", err)
	}
	info.Size = int64(len(data))
	info.CreatedAt = time.UnixMilli(header.Timestamp).UTC()
	err = g.first.putLTX(ctx, key, data, info.CreatedAt)
	if !errors.Is(err, errCondition) {
		return err
	}
	there, err := g.first.get(ctx, key)
	if err != nil {
		return fmt.Errorf("compare with the file that is there: %w", err)
	}
	if !bytes.Equal(there.data, data) {
		return fmt.Errorf("%s: %w", g.opts.url, ErrDiverged)
	}
	return nil
}

// upload lets Litestream's client write, as long as something moves.
func (g *guard) upload(ctx context.Context, info *ltx.FileInfo, r io.Reader) error {
	ctx, w := watch(ctx, g.opts.stall)
	defer w.stop()
	src := &uploadBody{ctx: ctx, w: w, opts: &g.opts, r: r, size: -1}
	ctx = httptrace.WithClientTrace(g.opts.counter.trace(ctx, requestPut), &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { src.alive() },
		GotFirstResponseByte: src.alive,
	})
	got, err := g.inner.WriteLTXFile(ctx, info.Level, info.MinTXID, info.MaxTXID, src.reader())
	if err != nil {
		return g.fail(ctx, RemotePut, err)
	}
	*info = *got
	return nil
}

// uploadBody is the body of an upload. Each byte that the client takes from it says
// that the upload goes on.
type uploadBody struct {
	ctx  context.Context
	w    *watchdog
	opts *guardOptions
	r    io.Reader
	size int64 // -1: a stream, of which nobody knows

	mu    sync.Mutex
	pos   int64 // of the next Read
	taken int64 // the furthest that was read
	ended bool
}

// sizedFile is a body from which parts are sent as they are read.
type sizedFile interface {
	io.ReadSeeker
	io.ReaderAt
}

// reader returns what the client reads from: a file for a file.
func (s *uploadBody) reader() io.Reader {
	f, ok := s.r.(sizedFile)
	if !ok {
		return s
	}
	start, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return s
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return s
	}
	if _, err := f.Seek(start, io.SeekStart); err != nil {
		return s
	}
	s.size, s.pos = end, start
	return &uploadFile{s, f}
}

// Read reads on, unless the upload was given up.
func (s *uploadBody) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.r.Read(p)
	s.mu.Lock()
	s.pos += int64(n)
	s.taken = max(s.taken, s.pos)
	s.ended = s.ended || errors.Is(err, io.EOF)
	s.mu.Unlock()
	if n > 0 || err != nil {
		s.alive()
	}
	return n, err
}

// alive moves the deadline. How far depends on what the client waits for: it
// sends a file as it reads it, but of a stream it buffers parts, which take
// their time on a slow line without another byte being read.
func (s *uploadBody) alive() {
	s.mu.Lock()
	all := s.ended || s.size >= 0 && s.taken >= s.size
	streamed := s.size < 0 && s.taken >= partSize
	s.mu.Unlock()
	switch {
	case streamed:
		s.w.moved(max(s.opts.stream, s.opts.stall))
	case all:
		s.w.moved(max(s.opts.answer, s.opts.stall))
	default:
		s.w.moved(s.opts.stall)
	}
}

// uploadFile is a uploadBody that can be read from any place, and several at once.
type uploadFile struct {
	*uploadBody
	f sizedFile
}

// Seek moves to where the next Read is.
func (s *uploadFile) Seek(offset int64, whence int) (int64, error) {
	pos, err := s.f.Seek(offset, whence)
	if err == nil {
		s.mu.Lock()
		s.pos = pos
		s.mu.Unlock()
	}
	return pos, err
}

// ReadAt reads a piece of a part.
func (s *uploadFile) ReadAt(p []byte, off int64) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	n, err := s.f.ReadAt(p, off)
	if n > 0 {
		s.mu.Lock()
		s.taken = max(s.taken, off+int64(n))
		s.mu.Unlock()
		s.alive()
	}
	return n, err
}
