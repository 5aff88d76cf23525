package queue

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
)

// Tx is a transaction of the caller in the writer's turn. Its methods may be
// called until the function that was given it returns. It may make and use
// tables of its own in the file; those of the queue it can only read.
type Tx struct {
	r        *round
	ctx      context.Context
	finished chan error // what the function returned

	mu   sync.Mutex // held by a method, and by the writer when it ends the transaction
	err  error      // why no method works any more
	rows []*sql.Rows
}

// txCall is a call of Queue.Tx on its way through the writer.
type txCall struct {
	ctx  context.Context
	turn chan *Tx // the writer hands the transaction over
	over error    // why it gets no other turn: it took too long, or its caller is gone
}

var (
	errTxOver     = errors.New("the transaction is over")
	errTxPanicked = errors.New("the transaction's function did not return")
)

// Tx runs f in a transaction of its own: what its statements did and the jobs
// that it enqueued take effect together, durably, when f returns nil, and not
// at all when it returns an error, which Tx returns. Workers that wait for
// such jobs are woken by the commit. Afterwards Seq covers it.
//
// Every write of the queue waits for f: it must not use the network, nor call
// the queue but through its Tx. After MaxTx it is rolled back, and Tx returns
// ErrTxTimeout as soon as f has returned. f runs in the caller's goroutine,
// and may run again when the commit failed for the sake of another operation.
//
// Errors: that of f, ErrTxTimeout, ErrUnknownOutcome, ErrDiskFull, ErrClosed,
// and ctx.Err() when ctx ended before f began.
func (q *Queue) Tx(ctx context.Context, f func(*Tx) error) error {
	t := &txCall{ctx: ctx, turn: make(chan *Tx)}
	o := &op{tx: t, done: make(chan struct{})}
	if err := q.send(o); err != nil {
		return err
	}
	for {
		select {
		case tx := <-t.turn:
			tx.call(f)
		case <-o.done:
			return o.err
		}
	}
}

// call runs f and tells the writer that it is over, also when f panics.
func (tx *Tx) call(f func(*Tx) error) {
	result := errTxPanicked
	defer func() { tx.finished <- result }()
	result = f(tx)
}

// transact gives the caller of Queue.Tx its turn.
func (r *round) transact(o *op) error {
	t := o.tx
	if o.err = cmp.Or(t.over, t.ctx.Err()); o.err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), MaxTx)
	defer cancel()
	tx := &Tx{r: r, ctx: ctx, finished: make(chan error, 1)}
	err := r.attempt(func() (bool, error) {
		r.w.guarded.Store(true)
		defer r.w.guarded.Store(false)
		t.turn <- tx
		select {
		case o.err = <-tx.finished:
			if o.err == errTxPanicked { //nolint:errorlint // itself; nobody is there to take another turn
				t.over = o.err
			}
			tx.end(errTxOver)
		case <-ctx.Done():
			t.over, o.err = ErrTxTimeout, ErrTxTimeout
			tx.end(ErrTxTimeout)
		}
		r.dirty = true
		return o.err == nil, nil
	})
	if err != nil && o.err != nil { // the failed statement took the whole transaction with it
		err = fmt.Errorf("%w: %w", o.err, err)
	}
	return err
}

// end makes tx useless and lets go of what the function left open.
func (tx *Tx) end(why error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.err = why
	for _, rows := range tx.rows {
		rows.Close()
	}
}

// Now is the time of the transaction, by the queue's clock.
func (tx *Tx) Now() time.Time { return time.UnixMilli(tx.r.now.wall) }

// Exec runs statements that return no rows.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.err != nil {
		return nil, tx.err
	}
	res, err := tx.r.w.conn.ExecContext(tx.ctx, query, args...)
	return res, tx.timeout(err)
}

// Query runs a statement that returns rows. They are closed at the end of the
// transaction, at the latest.
func (tx *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.err != nil {
		return nil, tx.err
	}
	rows, err := tx.r.w.conn.QueryContext(tx.ctx, query, args...) //nolint:sqlclosecheck // by the caller, or by end
	if err == nil {
		tx.rows = append(tx.rows, rows)
	}
	return rows, tx.timeout(err)
}

// QueryRow runs a statement that returns at most one row.
func (tx *Tx) QueryRow(query string, args ...any) *Row {
	rows, err := tx.Query(query, args...) //nolint:rowserrcheck // by Scan
	return &Row{rows, err}
}

// Row is the answer to Tx.QueryRow.
type Row struct {
	rows *sql.Rows
	err  error
}

// Scan reads the row, or returns sql.ErrNoRows.
func (r *Row) Scan(dst ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		return cmp.Or(r.rows.Err(), sql.ErrNoRows)
	}
	return errors.Join(r.rows.Scan(dst...), r.rows.Err())
}

// timeout names the reason of a statement that was interrupted.
func (tx *Tx) timeout(err error) error {
	if err != nil && tx.ctx.Err() != nil {
		return ErrTxTimeout
	}
	return err
}

// Enqueue adds jobs as Queue.Enqueue does, all or none. When it returns an
// error the transaction goes on without them.
//
// Errors: *SpecError, *TooLargeError, ErrIdempotencyConflict, ErrQueueFull,
// ErrDiskFull, ErrTxTimeout.
func (tx *Tx) Enqueue(specs ...Spec) ([]Enqueued, error) {
	o, err := newEnqueue(specs, tx.Now())
	if err != nil || len(specs) == 0 {
		return nil, err
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.err != nil {
		return nil, tx.err
	}
	if tx.r.w.disk.full(tx.r.now.wall) {
		return nil, ErrDiskFull
	}
	tx.r.w.guarded.Store(false)
	defer tx.r.w.guarded.Store(true)
	if err := tx.r.insertAlone(o); err != nil {
		return nil, err
	}
	return o.enqueued(), o.err
}

// guard keeps the statements of a Tx from ending the writer's transaction and
// from changing the queue's own tables, whose counters would be wrong after.
func guard(conn *sql.Conn, on *atomic.Bool, tables []string) error {
	check := func(action sqlite.AuthorizerActionCode, arg1, arg2, _, _ string) sqlite.AuthorizerReturnCode {
		if !on.Load() {
			return sqlite.AuthorizerOK
		}
		switch action {
		case sqlite.AuthRead, sqlite.AuthSelect, sqlite.AuthFunction, sqlite.AuthRecursive:
			return sqlite.AuthorizerOK
		case sqlite.AuthTransaction, sqlite.AuthSavepoint, sqlite.AuthAttach, sqlite.AuthDetach, sqlite.AuthPragma, sqlite.AuthAnalyze:
			return sqlite.AuthorizerDeny
		case sqlite.AuthInsert, sqlite.AuthUpdate, sqlite.AuthDelete:
			arg2 = "" // a column, which may be called as it likes
		}
		if slices.Contains(tables, arg1) || slices.Contains(tables, arg2) {
			return sqlite.AuthorizerDeny
		}
		return sqlite.AuthorizerOK
	}
	return conn.Raw(func(driver any) error {
		return driver.(sqlite.AuthorizerRegisterer).RegisterAuthorizer(check)
	})
}
