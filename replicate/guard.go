package replicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/s3"
	"github.com/superfly/ltx"
)

// ErrDiverged is returned when the local file and the replica, or two writers
// of one prefix, have different histories: one of the two was brought back from
// an earlier state.
var ErrDiverged = errors.New("the histories differ")

// errDeleteAll is returned for what nothing of ours may ask.
var errDeleteAll = errors.New("to delete a whole prefix is refused")

// guardOptions say what a guard checks. The zero value has the deadlines alone.
type guardOptions struct {
	// check returns an error when the right to write was lost; nil: never.
	check func() error
	// once is the store that puts files of level 0 below prefix only where none
	// is; nil: files may be replaced. A store that cannot is passed by.
	once   store
	prefix string
	// url names the place in errors; by default it is known from the others.
	url string
	// onBytes is told of every piece that was read, by several readers at once;
	// nil: nobody is.
	onBytes func(n int64)
	// counter counts the requests; nil: nobody does.
	counter *counter

	call   time.Duration // of a list or a delete; default 30 s
	stall  time.Duration // without a byte, of a read and of a write; default 10 s
	answer time.Duration // to a write, after its last byte; default 30 s
	stream time.Duration // without a sign of life of an upload in buffered parts; default 2 min
}

// guard is Litestream's client with deadlines and the fence around it. It lets
// no call wait forever, which the client's own 24 hours come close to, and no
// write or delete pass for one who lost the right to it.
type guard struct {
	inner litestream.ReplicaClient
	opts  guardOptions
	first firstWriter // nil: files may be replaced
	// plain is set when the provider said that it knows no conditions.
	plain atomic.Bool
}

// newGuard returns inner behind a guard.
func newGuard(inner litestream.ReplicaClient, opts guardOptions) litestream.ReplicaClient {
	if opts.check == nil {
		opts.check = func() error { return nil }
	}
	if opts.onBytes == nil {
		opts.onBytes = func(int64) {}
	}
	if opts.counter == nil {
		opts.counter = new(counter)
	}
	if opts.url == "" {
		opts.url = placeOf(inner, opts.once)
	}
	defaults := []struct {
		option *time.Duration
		value  time.Duration
	}{
		{&opts.call, 30 * time.Second},
		{&opts.stall, 10 * time.Second},
		{&opts.answer, 30 * time.Second},
		{&opts.stream, 2 * time.Minute},
	}
	for _, d := range defaults {
		if *d.option <= 0 {
			*d.option = d.value
		}
	}
	first, _ := opts.once.(firstWriter)
	return &guard{inner: inner, opts: opts, first: first}
}

// placeOf names the place of a client for people.
func placeOf(inner litestream.ReplicaClient, s store) string {
	if s != nil {
		return s.url()
	}
	if c, ok := inner.(*s3.ReplicaClient); ok {
		return newS3URL(Replica{Bucket: c.Bucket, Path: c.Path, Endpoint: c.Endpoint})
	}
	return inner.Type()
}

// Type returns the type of the client behind the guard.
func (g *guard) Type() string { return g.inner.Type() }

// SetLogger sets the logger of the client behind the guard.
func (g *guard) SetLogger(logger *slog.Logger) { g.inner.SetLogger(logger) }

// Init connects the client, which may ask for the bucket's region.
func (g *guard) Init(ctx context.Context) error {
	ctx, w := watch(ctx, g.opts.call)
	defer w.stop()
	return g.fail(ctx, RemoteGet, g.inner.Init(g.opts.counter.trace(ctx, requestGet)))
}

// DeleteAll is refused.
func (g *guard) DeleteAll(context.Context) error { return errDeleteAll }

// DeleteLTXFiles deletes files in batches, each of them one request with a
// deadline of its own and the fence around it.
func (g *guard) DeleteLTXFiles(ctx context.Context, files []*ltx.FileInfo) error {
	const batch = 1000 // the most that S3 takes in a request
	for len(files) > 0 {
		n := min(len(files), batch)
		if err := g.delete(ctx, files[:n]); err != nil {
			return err
		}
		files = files[n:]
	}
	return nil
}

func (g *guard) delete(ctx context.Context, files []*ltx.FileInfo) error {
	if err := g.opts.check(); err != nil {
		return fmt.Errorf("delete %d files: %w", len(files), err)
	}
	ctx, w := watch(ctx, g.opts.call)
	defer w.stop()
	err := g.inner.DeleteLTXFiles(g.opts.counter.trace(ctx, requestDelete), files)
	if fence := g.opts.check(); fence != nil {
		return fmt.Errorf("delete %d files: %w", len(files), fence)
	}
	if err != nil && ctx.Err() == nil && deniedByKey(err) {
		return &RemoteError{Kind: RemoteForbidden, Op: RemoteDelete, URL: g.opts.url, Err: err}
	}
	return g.fail(ctx, RemoteDelete, err)
}

// deniedByKey reports whether single files of a delete were refused for a lack
// of rights. Litestream keeps nothing of these refusals but their text.
func deniedByKey(err error) bool {
	text := strings.ToLower(strings.ReplaceAll(err.Error(), " ", ""))
	return strings.Contains(text, "accessdenied") || strings.Contains(text, "notauthorized")
}

// OpenLTXFile opens a file, or a part of it. The deadline is for the time
// without a byte, of the answer and of each read of the body.
func (g *guard) OpenLTXFile(ctx context.Context, level int, minTXID, maxTXID ltx.TXID, offset, size int64) (io.ReadCloser, error) {
	ctx, w := watch(ctx, g.opts.stall)
	rc, err := g.inner.OpenLTXFile(g.opts.counter.trace(ctx, requestGet), level, minTXID, maxTXID, offset, size)
	if err != nil {
		err = g.fail(ctx, RemoteGet, err)
		w.stop()
		return nil, err
	}
	w.pause()
	return &body{g: g, ctx: ctx, w: w, inner: rc}, nil
}

// fail gives an error of the store its kind. Litestream looks for a file that is
// not there without unwrapping, so that one passes as it is.
func (g *guard) fail(ctx context.Context, op RemoteOp, err error) error {
	if err == nil || ctx.Err() == nil && (os.IsNotExist(err) || g.inner.Type() == "file") {
		return err
	}
	return remoteError(ctx, op, g.opts.url, err)
}
