package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Options configure Open. The zero value works.
type Options struct {
	Logger *slog.Logger // nil: nothing is logged
	Epoch  int64        // the reign of the primary that opens the file; 0: the file's own, 1 in a new one
	// MaxRound bounds how many operations share a commit; 0 means 512. With 1
	// every operation pays for a commit of its own (a yardstick for benchmarks).
	MaxRound int
	// DiskWatermark is the free space, in bytes, under which Enqueue answers
	// ErrDiskFull. 0: the smaller of 256 MiB and 5 % of the disk; negative: none.
	DiskWatermark int64
	// ExternalCheckpoints leaves checkpoints of the WAL to the caller, as
	// replication needs it.
	ExternalCheckpoints bool
	// GiveWay, unless nil, makes whoever else reads the WAL let go of it. The
	// writer calls it between two transactions when the disk is full, before it
	// empties the WAL itself, which it then does with ExternalCheckpoints too.
	GiveWay func()
	// Lineage names the history that the file belongs to. A new file is given
	// it, and a file of another one is refused. Empty: a new file draws one by
	// lot, and any is accepted.
	Lineage string
	// OnCommit, unless nil, is called by the writer after each commit and
	// before its answers. All writes wait for it: it must be quick, and must
	// not call the queue.
	OnCommit func(Seq)
	// OnChange, unless nil, is told just before OnCommit of the jobs that the
	// commit brought into another state, in the order in which it did so; a commit
	// that did with none is not told. It may keep the slice, and must be as
	// quick as OnCommit. That a job was archived is no change of its state.
	OnChange func(Seq, []Change)
	Now      func() time.Time // nil: time.Now

	mono func() time.Duration // nil: the monotonic part of Now
}

// Queue is an open database. Its methods may be called from any goroutine.
type Queue struct {
	Reader
	w      *writer
	signer *signer
	read   *sql.DB
	write  *sql.DB
	turns  turns
	group  errgroup.Group
	cancel context.CancelFunc // ends the sweep
	reads  sync.WaitGroup     // under way

	mu       sync.RWMutex // held for reading while an operation is handed over
	closed   bool
	draining chan struct{}
	drain    sync.Once
	close    sync.Once
	closeErr error
}

// Open opens or creates the database at path, brings its schema up to date and
// starts the writer. The caller must see to it that no other process opens the
// file.
//
// Errors: ErrNewerSchema, ErrForeignFile (also for a file of another lineage),
// ErrNetworkDisk, ErrDiskFull.
func Open(ctx context.Context, path string, opts Options) (*Queue, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxRound <= 0 {
		opts.MaxRound = defaultMaxRound
	}
	disk, err := openDisk(path, opts.DiskWatermark, opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	q := &Queue{draining: make(chan struct{})}
	q.Reader = Reader{begin: q.view}
	if err := q.open(ctx, path, opts, disk); err != nil {
		q.closeFiles() //nolint:errcheck // the error above is the one to tell
		if isFull(err) {
			err = fmt.Errorf("%w: %w", ErrDiskFull, err)
		}
		return nil, fmt.Errorf("open %s: %w", path, asForeign(err))
	}
	disk.look(q.w.clock.read().wall)
	run, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	q.group.Go(func() error { q.w.run(); return nil })
	q.group.Go(func() error { q.sweep(run); return nil })
	return q, nil
}

func (q *Queue) open(ctx context.Context, path string, opts Options, d *disk) (err error) {
	if q.write, err = sql.Open("sqlite", dsn(path, "rwc")); err != nil {
		return err
	}
	q.write.SetMaxOpenConns(1)
	conn, err := q.write.Conn(ctx)
	if err != nil {
		return err
	}
	q.w = &writer{
		conn: conn, log: opts.Logger, clock: newClock(&opts), opts: opts, disk: d,
		ops: make(chan *op, 1024), failed: make(chan struct{}), watched: map[int64][]chan struct{}{},
	}
	if err := q.w.setUp(ctx); err != nil {
		return err
	}
	if q.read, err = sql.Open("sqlite", dsn(path, "ro")+"&_pragma=query_only(1)"); err != nil {
		return err
	}
	q.read.SetMaxOpenConns(readers)
	q.read.SetMaxIdleConns(readers)
	var key []byte
	if err := conn.QueryRowContext(ctx, "select v from meta where k='token_key'").Scan(&key); err != nil {
		return err
	}
	if len(key) < 16 {
		return errors.New("the token key in meta is too short")
	}
	q.signer = newSigner(q.w.epoch, key)
	return nil
}

func dsn(path, mode string) string {
	u := url.URL{Scheme: "file", Opaque: url.PathEscape(path)}
	return u.String() + "?mode=" + mode + "&_pragma=busy_timeout(5000)"
}

// setUp brings the file to the point where rounds can run.
func (w *writer) setUp(ctx context.Context) error {
	// Before the first change, so that a file of another program stays as it is.
	version, err := checkSchema(ctx, w.conn)
	if err != nil {
		return err
	}
	if err := checkLineage(ctx, w.conn, version, w.opts.Lineage); err != nil {
		return err
	}
	checkpoint := 1000 // pages
	if w.opts.ExternalCheckpoints {
		checkpoint = 0
	}
	for _, pragma := range []string{
		"journal_mode = wal", "synchronous = full", "foreign_keys = on", "temp_store = memory",
		"cache_size = -32768", "journal_size_limit = 67108864", fmt.Sprintf("wal_autocheckpoint = %d", checkpoint),
	} {
		if _, err := w.conn.ExecContext(ctx, "pragma "+pragma); err != nil {
			return fmt.Errorf("pragma %s: %w", pragma, err)
		}
	}
	if err := migrate(ctx, w.conn, version, w.opts.Lineage); err != nil {
		return err
	}
	if w.st, err = prepare(ctx, w.conn); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if w.names, err = loadNames(ctx, w.conn, w.st); err != nil {
		return err
	}
	tables, err := tableNames()
	if err != nil {
		return err
	}
	if err := guard(w.conn, &w.guarded, tables); err != nil {
		return err
	}
	return w.boot(ctx) // with an empty agenda: the first round looks at everything
}

// Close answers what waits, finishes the rounds under way, stops every
// goroutine and closes the file. Claims that wait get an empty answer at once.
func (q *Queue) Close() error {
	q.close.Do(func() {
		q.DrainClaims()
		q.mu.Lock()
		q.closed = true
		close(q.w.ops)
		q.mu.Unlock()
		q.cancel()
		q.group.Wait() //nolint:errcheck // its functions return none
		q.reads.Wait() // not for long: see readTimeout
		q.closeErr = q.closeFiles()
	})
	return q.closeErr
}

// closeFiles closes the readers first, so that the writer, last to leave,
// checkpoints the WAL.
func (q *Queue) closeFiles() error {
	var errs []error
	if q.read != nil {
		errs = append(errs, q.read.Close())
	}
	if q.w != nil {
		if q.w.st != nil {
			if !q.w.opts.ExternalCheckpoints && !q.w.broken() {
				// All that was committed is safe in the WAL too, but a person who
				// copies the file of a stopped node expects it to be complete.
				if err := q.w.emptyWAL(); err != nil {
					q.w.log.Warn("the WAL stays", "err", err)
				}
			}
			errs = append(errs, q.w.st.close())
		}
		errs = append(errs, q.w.conn.Close())
	}
	if q.write != nil {
		errs = append(errs, q.write.Close())
	}
	return errors.Join(errs...)
}

// DrainClaims answers waiting claims at once with nothing, and from now on no
// claim waits or hands out a job; what claims carry is still settled.
func (q *Queue) DrainClaims() { q.drain.Do(func() { close(q.draining) }) }

func (q *Queue) drained() bool {
	select {
	case <-q.draining:
		return true
	default:
		return false
	}
}

// Failed is closed when the writer met an error that it cannot go on from; Err
// tells which. The process should stop, and start again to recover.
func (q *Queue) Failed() <-chan struct{} { return q.w.failed }

// Err returns why Failed was closed, or nil.
func (q *Queue) Err() error {
	if q.w.broken() {
		return q.w.err
	}
	return nil
}

// Seq returns the last commit. What is read after it shows at least this state.
func (q *Queue) Seq() Seq { return Seq{q.w.epoch, q.w.done.Load()} }

// seq is the commit that an operation was part of.
func (q *Queue) seq(o *op) Seq { return Seq{q.w.epoch, o.seq} }

// do hands an operation to the writer and waits for its round. When ctx ends
// first the operation may still take effect.
func (q *Queue) do(ctx context.Context, o *op) error {
	o.done = make(chan struct{})
	if o.admin != nil {
		o.audit = auditOf(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := q.send(o); err != nil {
		return err
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		if o.claim == nil {
			return ctx.Err()
		}
		if o.claim.leave(claimLeft) {
			// It may have begun to wait already, just before it left.
			q.send(&op{forget: o.claim, done: make(chan struct{})}) //nolint:errcheck // after Close nobody waits in the lists
			return ctx.Err()
		}
		<-o.done // it was answered at the same moment, and its jobs must not be lost
		return o.err
	}
}

func (q *Queue) send(o *op) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return ErrClosed
	}
	q.w.ops <- o
	return nil
}
