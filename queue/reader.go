package queue

import (
	"context"
	"database/sql"
	"fmt"
)

// Reader reads a database of this package: that of a [Queue], or a copy that
// somebody else keeps up to date. Each call sees one state of it.
type Reader struct {
	// begin runs f on one snapshot of the file.
	begin func(ctx context.Context, f func(context.Context, *sql.Tx) error) error
}

// NewReader returns a reader of the databases that acquire hands out, one for
// each state that is read; release is called when that was read. They are open
// for reading, and stay as they are until then.
func NewReader(acquire func(ctx context.Context) (db *sql.DB, release func(), err error)) *Reader {
	return &Reader{begin: func(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		db, release, err := acquire(ctx)
		if err != nil {
			return err
		}
		defer release()
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // nothing was written
		return f(ctx, tx)
	}}
}

// view runs f on one snapshot of the file.
func (q *Reader) view(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	return q.begin(ctx, f)
}

// InspectCopy is [Inspect] of a copy that is open for reading.
//
// Errors: ErrEmptyFile, ErrForeignFile, ErrNewerSchema.
func InspectCopy(ctx context.Context, db *sql.DB) (id Identity, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return id, fmt.Errorf("inspect: %w", asForeign(err))
	}
	defer conn.Close()
	if id.Schema, err = checkSchema(ctx, conn); err == nil && id.Schema == 0 {
		err = ErrEmptyFile
	}
	if err == nil {
		err = id.read(ctx, conn, false)
	}
	if err != nil {
		return id, fmt.Errorf("inspect: %w", asForeign(err))
	}
	return id, nil
}
