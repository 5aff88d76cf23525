package replicate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/benbjohnson/litestream"
)

const (
	firstRetry = time.Second
	lastRetry  = 15 * time.Second // never Litestream's own five minutes
	askLock    = 10 * time.Second // of work, or of a pause before it

	// How long a round waits for those who come back from the one before it:
	// at most, and while nobody does.
	mostGather  = 50 * time.Millisecond
	gatherPause = 10 * time.Millisecond
)

// stream drives Litestream for one epoch: a commit wakes it, and it uploads
// what the WAL has. While nothing is committed it does nothing at all.
type stream struct {
	primary *Primary
	seq     func() int64
	woken   chan struct{}
	care    chan struct{} // wakes maintain
	hurry   chan struct{} // somebody waits
	waiters waiters

	use  sync.RWMutex // held for reading while db is used, see begin
	away bool         // db is closed, see GiveWay; with use

	mu        sync.Mutex
	db        *litestream.DB // nil until open
	opening   context.Context
	interrupt context.CancelFunc // ends opening, and with it every use of db

	askedAt time.Time // when lock.json was last seen to be ours; for run alone
}

// newStream is for a root that was just taken.
func newStream(p *Primary, seq func() int64) *stream {
	return &stream{primary: p, seq: seq, askedAt: time.Now(), woken: make(chan struct{}, 1), care: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

var errStopped = errors.New("the node stops")

func (s *stream) wake() { signal(s.woken) }

// signal leaves a token, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// open prepares Litestream on the epoch's prefix. Its monitors stay off.
func (s *stream) open() error {
	p := s.primary
	epoch := p.Epoch()
	client, err := p.boot.store.client(prefixOf(epoch))
	if err != nil {
		return err
	}
	db := litestream.NewDB(p.boot.files.db)
	db.SetMetaPath(p.boot.files.meta(epoch))
	db.SetLogger(quiet(p.boot.log))
	db.MonitorInterval = 0
	db.CheckpointInterval = time.Minute
	db.ShutdownSyncTimeout = 0
	db.L0Retention = p.boot.opts.Config.L0Retention
	db.RetentionEnabled = true
	guarded := newGuard(client, guardOptions{
		url: p.boot.store.url(), check: p.check, once: p.boot.store, prefix: prefixOf(epoch), counter: p.boot.store.requests(),
	})
	replica := litestream.NewReplicaWithClient(db, guarded)
	replica.MonitorEnabled = false
	replica.AutoRecoverEnabled = false
	db.Replica = replica
	if err := db.Open(); err != nil {
		return err
	}
	s.mu.Lock()
	s.db = db
	s.opening, s.interrupt = context.WithCancel(context.Background())
	s.mu.Unlock()
	return nil
}

func (s *stream) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db != nil
}

func (s *stream) close(ctx context.Context) error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.away {
		return nil
	}
	s.interrupt()
	return s.db.Close(ctx)
}

// run uploads after commits, at most once in the sync interval; somebody who
// waits for it shortens that to the window.
func (s *stream) run(ctx context.Context) {
	c := s.primary.boot.opts.Config
	retry := time.Duration(0)
	defer func() { answer(s.waiters.take(), errStopped) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.primary.lost:
			return
		case <-s.woken:
		}
		began := time.Now()
		told, err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.note(err)
		if err != nil {
			retry = min(max(2*retry, firstRetry), lastRetry)
			s.wake()
			if !s.pause(ctx, time.Now(), firstRetry, retry) {
				return
			}
			continue
		}
		retry = 0
		s.tend()
		moment := time.Now().Add(min(time.Since(began)/2, mostGather))
		if !s.pause(ctx, began, c.Window, c.SyncInterval) || !s.gather(ctx, told, moment) {
			return
		}
	}
}

// gather gives those who were told until end to come back with their next
// commit, as long as they do. After a round that took longer than the window,
// the next would otherwise begin with the first of them, and the others would
// wait for its end and then for one more.
func (s *stream) gather(ctx context.Context, told int, end time.Time) bool {
	came, at := s.waiters.count(), time.Now()
	for told > 1 && came < told && time.Now().Before(end) && time.Since(at) < gatherPause {
		if !sleep(ctx, time.Millisecond) {
			return false
		}
		if n := s.waiters.count(); n > came {
			came, at = n, time.Now()
		}
	}
	return ctx.Err() == nil
}

// pause waits until the next round may begin: window after the last began if
// somebody waits for it, else interval after.
func (s *stream) pause(ctx context.Context, began time.Time, window, interval time.Duration) bool {
	if !sleep(ctx, window-time.Since(began)) {
		return false
	}
	timer := time.NewTimer(interval - time.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-s.hurry:
	}
	return true
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// once makes sure that the root is still ours, when that was not seen lately,
// and uploads. Those who wait are told after lock.json was read once more, by a
// request that was sent when the upload had its answer. It returns how many
// were told, or wait for the next round by then.
func (s *stream) once(ctx context.Context) (told int, err error) {
	select {
	case <-s.hurry:
	default:
	}
	waiting := s.waiters.take()
	defer func() {
		told = len(waiting) + s.waiters.count()
		answer(waiting, err)
	}()
	if time.Since(s.askedAt) >= askLock {
		if err := s.stillOurs(ctx); err != nil {
			return 0, err
		}
	}
	if err := s.round(ctx); err != nil || len(waiting) == 0 {
		return 0, err
	}
	if err := fault("after-upload"); err != nil {
		return 0, err
	}
	return 0, s.stillOurs(ctx)
}

// stillOurs reads lock.json: a node that slept while another took over learns
// of its end before it writes.
func (s *stream) stillOurs(ctx context.Context) error {
	p := s.primary
	now, err := readLock(ctx, p.boot.store)
	if errors.Is(err, ErrNoLock) {
		err = fmt.Errorf("%w: %w", ErrFenced, err)
		p.lose(err)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	mine := now.Session == p.lock.Session && now.Epoch == p.lock.Epoch && !now.Closed
	p.mu.Unlock()
	if !mine {
		err := fmt.Errorf("%w: %s is held by node %q in epoch %d", ErrFenced, p.boot.store.url(), now.Node, now.Epoch)
		p.lose(err)
		return err
	}
	s.askedAt = time.Now()
	return nil
}

// round copies the WAL into the replica. What was committed before it is there
// when it returns nil.
func (s *stream) round(ctx context.Context) error {
	if err := s.primary.check(); err != nil {
		return err
	}
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	seq, began := s.seq(), time.Now()
	if err := s.db.Sync(ctx); err != nil {
		return fmt.Errorf("read the WAL: %w", err)
	}
	if err := s.db.Replica.Sync(ctx); err != nil {
		if errors.Is(err, ErrDiverged) {
			s.primary.lose(err)
		}
		return fmt.Errorf("upload: %w", err)
	}
	return s.primary.uploaded(seq, uint64(s.db.Replica.Pos().TXID), began)
}

// uploaded records how far the replica is.
func (p *Primary) uploaded(seq int64, txid uint64, began time.Time) error {
	p.mu.Lock()
	st := &p.status
	moved := txid != st.TXID
	st.ReplicatedSeq, st.TXID, st.LastSyncAt = max(seq, st.ReplicatedSeq), txid, time.Now()
	if p.stream.seq() > seq {
		st.PendingSince = began // something was committed while the round ran
	} else {
		st.PendingSince = time.Time{}
	}
	at := position{Epoch: p.node.Epoch, TXID: txid, Seq: seq}
	p.mu.Unlock()
	if !moved {
		return nil
	}
	if p.boot.opts.Uploaded != nil {
		p.boot.opts.Uploaded(at.Epoch, at.TXID, at.Seq)
	}
	// Without the lock: a commit calls Notify and would wait for the disk.
	return writeJSON(p.boot.files.positions(), at, false)
}

// note keeps the outcome of a round for Status, and logs a change.
func (s *stream) note(err error) {
	p := s.primary
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.status.LastError
	switch {
	case err != nil:
		p.status.LastError, p.status.LastErrorAt = err.Error(), time.Now()
		if before == "" {
			p.boot.log.Error("replication is held up", "err", err)
		}
	case before != "":
		p.status.LastError = ""
		p.boot.log.Info("replication goes on")
	}
}
