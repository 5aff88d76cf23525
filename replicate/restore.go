package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// Progress is how a restore gets on.
type Progress struct {
	Bytes   int64         // read so far
	Total   int64         // to be read
	Elapsed time.Duration // since the first request
}

// Rate is in bytes a second.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Bytes) / p.Elapsed.Seconds()
}

// Left is about how long it will take from now on; 0 when that is not known.
func (p Progress) Left() time.Duration {
	if r := p.Rate(); r > 0 && p.Total > p.Bytes {
		return time.Duration(float64(p.Total-p.Bytes) / r * float64(time.Second))
	}
	return 0
}

const (
	restoreTries  = 5
	progressEvery = 500 * time.Millisecond
)

// target says what of a prefix is restored, and how it is checked.
type target struct {
	txid  ltx.TXID  // 0: the newest
	at    time.Time // zero: no matter when
	check litestream.IntegrityCheckMode
}

// fetch restores a prefix into a file that is not there yet. Files that a plan
// needs may be compacted away before it comes to them, or between two of the
// lists that it is made from; where no certain transaction is asked for, there
// is then a newer plan. Litestream has no type for all of these errors, so what
// the store itself did not cause is tried again.
func fetch(ctx context.Context, s store, epoch int64, output string, to target, log *slog.Logger, progress func(Progress)) (txid ltx.TXID, err error) {
	for range restoreTries {
		txid, err = fetchOnce(ctx, s, epoch, output, to, log, progress)
		var remote *RemoteError
		if err == nil || to.txid != 0 || ctx.Err() != nil || errors.As(err, &remote) || errors.Is(err, fs.ErrExist) {
			return txid, err
		}
	}
	return txid, err
}

func fetchOnce(ctx context.Context, s store, epoch int64, output string, to target, log *slog.Logger, progress func(Progress)) (ltx.TXID, error) {
	client, err := s.client(prefixOf(epoch))
	if err != nil {
		return 0, err
	}
	var read atomic.Int64
	guarded := newGuard(client, guardOptions{url: s.url(), counter: s.requests(), onBytes: func(n int64) { read.Add(n) }})
	guarded.SetLogger(quiet(log))
	plan, err := litestream.CalcRestorePlan(ctx, guarded, to.txid, to.at, quiet(log))
	if errors.Is(err, litestream.ErrTxNotAvailable) {
		return 0, fmt.Errorf("%s has nothing for that transaction or time in epoch %d: %w", s.url(), epoch, err)
	}
	if err != nil {
		return 0, err
	}
	var total int64
	for _, f := range plan {
		total += f.Size
	}
	stop := report(progress, &read, total)
	defer stop()
	opts := litestream.NewRestoreOptions()
	opts.OutputPath, opts.TXID, opts.Timestamp, opts.IntegrityCheck = output, to.txid, to.at, to.check
	if err := litestream.NewReplicaWithClient(nil, guarded).Restore(ctx, opts); err != nil {
		return 0, err
	}
	return plan[len(plan)-1].MaxTXID, nil
}

// report calls progress now and then until the function that it returns is
// called.
func report(progress func(Progress), read *atomic.Int64, total int64) (stop func()) {
	if progress == nil {
		return func() {}
	}
	began := time.Now()
	tell := func() { progress(Progress{Bytes: min(read.Load(), total), Total: total, Elapsed: time.Since(began)}) }
	done, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				tell()
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		tell()
	}
}

// restore brings the newest state of an epoch into the data directory, with
// the file of level 0 that a later boot compares it by.
func (b *boot) restore(ctx context.Context, epoch int64) (txid ltx.TXID, err error) {
	for range restoreTries {
		if txid, err = b.tryRestore(ctx, epoch); err == nil || ctx.Err() != nil {
			return txid, err
		}
		b.log.Warn("restore failed", "epoch", epoch, "err", err)
		if rerr := b.discard(epoch); rerr != nil {
			return 0, errors.Join(err, rerr)
		}
	}
	return 0, err
}

func (b *boot) tryRestore(ctx context.Context, epoch int64) (ltx.TXID, error) {
	client, err := b.store.client(prefixOf(epoch))
	if err != nil {
		return 0, err
	}
	guarded := newGuard(client, guardOptions{url: b.store.url(), counter: b.store.requests()})
	txid, err := newestTXID(ctx, guarded)
	if err != nil {
		return 0, err
	}
	if txid == 0 {
		return 0, fmt.Errorf("prefix %s is empty", prefixOf(epoch))
	}
	if err := b.files.keep(ctx, guarded, epoch, txid); err != nil {
		return 0, err
	}
	return fetch(ctx, b.store, epoch, b.files.db, target{txid: txid, check: litestream.IntegrityCheckQuick}, b.log, b.opts.Progress)
}

// discard removes what a restore that failed left behind.
func (b *boot) discard(epoch int64) error {
	var errs []error
	for _, suffix := range []string{"", ".tmp", "-wal", "-shm"} {
		if err := os.Remove(b.files.db + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(b.files.meta(epoch)))...)
}

// quiet passes on what Litestream has to say of warnings and errors; its
// information is about each file.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
