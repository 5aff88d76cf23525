package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"
)

// writer owns the one connection that writes. Its goroutine takes every
// operation that waits, runs them in one transaction, commits once, and then
// answers all: group commit. What it keeps in memory (counts, ids, names) is a
// copy of the file as of the last commit.
type writer struct {
	conn     *sql.Conn
	st       *statements
	log      *slog.Logger
	clock    clock
	opts     Options
	disk     *disk
	epoch    int64
	names    *names
	nextID   int64
	seq      int64
	wait     waiters
	due      agenda
	returned []*op                     // jobs of claimers that went away, for the next round
	watched  map[int64][]chan struct{} // closed when the job comes to an end
	guarded  atomic.Bool               // statements are those of a Tx
	ops      chan *op
	meters   meters
	done     atomic.Int64 // seq of the last commit, for readers
	failed   chan struct{}
	err      error // set before failed is closed
}

// op is one call on its way through the writer. The parts that are set are
// executed in the order of the fields.
type op struct {
	finish []finish             // acks, fails, releases, snoozes and extends
	admin  func(r *round) error // one change by hand, or
	tx     *txCall              // a transaction of the caller
	rows   []*row               // jobs to enqueue
	claim  *claim
	forget *claim // a claimer that went away

	audit *Audit // of admin; nil: it leaves no entry
	count int64  // how many things admin changed, for the entry

	done chan struct{} // closed when its first round is over and the fields below are set
	err  error
	seq  int64
}

const (
	defaultMaxRound = 512
	maxRoundRows    = 8192 // rows after which a round takes no further operation
)

// run executes rounds until ops is closed and empty.
func (w *writer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var first *op
		select {
		case o, ok := <-w.ops:
			if !ok {
				for len(w.returned) > 0 {
					w.work(nil)
				}
				return
			}
			first = o
		case <-timer.C:
		}
		// The node's connections write the last answers, and hand in what comes
		// next: a tenth more jobs over HTTP.
		runtime.Gosched()
		began := time.Now()
		w.work(first)
		w.meters.worked(time.Since(began))
		timer.Reset(w.due.sleep(w.clock.read()))
		if w.broken() {
			w.refuse()
			return
		}
	}
}

// work executes what claimers gave back, the operation, unless it is nil, and
// what waits besides.
func (w *writer) work(first *op) {
	batch := w.returned
	w.returned = nil
	if first != nil {
		batch = append(batch, first)
	}
	w.process(batch)
}

// collect adds to a batch what waits besides it.
func (w *writer) collect(batch []*op) []*op {
	rows := 0
	for _, o := range batch {
		rows += o.size()
	}
	for len(batch) < w.opts.MaxRound && rows < maxRoundRows {
		select {
		case o, ok := <-w.ops:
			if !ok {
				return batch
			}
			batch = append(batch, o)
			rows += o.size()
		default:
			return batch
		}
	}
	return batch
}

func (o *op) size() int {
	n := len(o.finish) + len(o.rows)
	if o.claim != nil {
		n += o.claim.max
	}
	return n
}

// process runs a batch as one round. When the round fails it took no effect;
// then each operation gets a round of its own, so that only the one at fault
// fails. Enqueues come last: on a full disk the others shall have the room.
func (w *writer) process(batch []*op) {
	batch, err := w.round(batch, true)
	if err == nil {
		return
	}
	if isFull(err) {
		w.makeRoom()
	}
	w.meters.refused(err)
	w.due.postpone(w.clock.read())
	w.log.Warn("round failed, its operations run one by one", "operations", len(batch), "err", err)
	for _, enqueues := range []bool{false, true} {
		for _, o := range batch {
			if (len(o.rows) > 0) != enqueues {
				continue
			}
			_, err := w.round([]*op{o}, false)
			if isFull(err) {
				w.makeRoom()
				_, err = w.round([]*op{o}, false)
			}
			if err != nil {
				w.log.Error("operation failed", "err", err)
				answer([]*op{o}, err)
			}
		}
	}
}

// answer gives every operation of a failed round its error.
func answer(batch []*op, err error) {
	switch {
	case isFull(err):
		err = ErrDiskFull
	case !errors.Is(err, ErrUnknownOutcome):
		err = fmt.Errorf("write: %w", err)
	}
	for _, o := range batch {
		o.fail(err)
	}
}

func (o *op) fail(err error) {
	o.err = err
	close(o.done)
}

// stop marks the writer as broken: the process has to start again, since only
// recovery can tell what the file holds.
func (w *writer) stop(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	w.err = err
	w.log.Error("commit failed, the queue stops", "err", err)
	close(w.failed)
	return err
}

func (w *writer) broken() bool {
	select {
	case <-w.failed:
		return true
	default:
		return false
	}
}

// refuse answers what still comes after the writer broke.
func (w *writer) refuse() {
	for o := range w.ops {
		o.fail(fmt.Errorf("%w: %w", ErrClosed, w.err))
	}
}

// round runs a batch in one transaction and answers it; with open, it also
// takes in what waits and does the housekeeping. It returns the operations that
// it had. On an error nothing took effect and nothing was answered, unless the
// error is ErrUnknownOutcome.
func (w *writer) round(batch []*op, open bool) ([]*op, error) {
	if w.broken() {
		return batch, w.err
	}
	r := &round{w: w, now: w.clock.read(), batch: batch}
	err := r.run(open)
	if err == nil {
		err = r.commit()
	}
	if err != nil {
		r.rollback()
		return r.batch, err
	}
	r.answer()
	return r.batch, nil
}

// giveBack releases the jobs of a claim whose caller went away before it was
// answered.
func (w *writer) giveBack(c *claim) {
	o := &op{done: make(chan struct{})}
	for _, j := range c.jobs {
		o.finish = append(o.finish, finish{kind: finishRelease, lease: lease{j.ID, j.Run}, valid: true})
	}
	w.returned = append(w.returned, o)
	w.due.again = true
}

// makeRoom finds room for claims and acks on a full disk. Emptying the WAL
// gives back the space that it has, but a file that has to grow for it needs
// the reserve. It is spent by halves: as claims and acks let the file grow
// little, it lasts until a person comes.
func (w *writer) makeRoom() {
	if w.opts.GiveWay != nil {
		w.opts.GiveWay()
	}
	err := w.emptyWAL()
	for (isFull(err) || w.disk.free() < minRoom) && w.disk.spend() {
		err = w.emptyWAL()
	}
	w.log.Warn("the disk is full", "reserve", w.disk.held, "free", w.disk.free(), "err", err)
}

// emptyWAL moves the WAL into the file and truncates it.
func (w *writer) emptyWAL() error {
	var busy, frames, moved int
	err := w.conn.QueryRowContext(context.Background(), "pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &moved)
	if err == nil && busy != 0 {
		err = errors.New("a reader holds on to the WAL")
	}
	return err
}
