package queue

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Plain ? throughout: the driver asks SQLite for the name of each numbered
// parameter, which is quadratic in a statement of many rows.

// sizes are the numbers of rows that a list statement is prepared for. A list
// of any length is cut greedily: 100 = 64 + 16 + 16 + 4.
var sizes = [...]int{64, 16, 4, 1}

// listStmt is a statement over a list of rows, "…head row, row, row tail…".
type listStmt struct {
	stmts [len(sizes)]*sql.Stmt
	width int // parameters a row
}

func prepareList(ctx context.Context, conn *sql.Conn, head, row, tail string) (*listStmt, error) {
	l := &listStmt{width: strings.Count(row, "?")}
	for i, n := range sizes {
		text := head + strings.TrimSuffix(strings.Repeat(row+",", n), ",") + tail
		stmt, err := conn.PrepareContext(ctx, text) //nolint:sqlclosecheck // by statements.close
		if err != nil {
			return nil, err
		}
		l.stmts[i] = stmt
	}
	return l, nil
}

// each calls run for every cut of rows, a flat list of parameters, with the
// statement for it and its parameters between pre and post.
func (l *listStmt) each(pre, rows, post []any, run func(*sql.Stmt, []any) error) error {
	args := make([]any, 0, len(pre)+min(len(rows), sizes[0]*l.width)+len(post))
	for i, n := range sizes {
		for len(rows) >= n*l.width {
			args = append(append(append(args[:0], pre...), rows[:n*l.width]...), post...)
			if err := run(l.stmts[i], args); err != nil {
				return err
			}
			rows = rows[n*l.width:]
		}
	}
	return nil
}

// exec runs the statement over rows and returns how many rows it changed.
func (l *listStmt) exec(pre, rows, post []any) (changed int64, err error) {
	err = l.each(pre, rows, post, func(stmt *sql.Stmt, args []any) error {
		res, err := stmt.Exec(args...)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		changed += n
		return err
	})
	return changed, err
}

// query runs the statement over rows and calls scan for each row it returns.
func (l *listStmt) query(pre, rows, post []any, scan func(*sql.Rows) error) error {
	return l.each(pre, rows, post, func(stmt *sql.Stmt, args []any) error {
		return scanAll(stmt, args, scan)
	})
}

func scanAll(stmt *sql.Stmt, args []any, scan func(*sql.Rows) error) error {
	rows, err := stmt.Query(args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func ids(n []int64) []any {
	args := make([]any, len(n))
	for i, id := range n {
		args[i] = id
	}
	return args
}

// isFull reports whether err is SQLite's word for a disk without room.
func isFull(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_FULL
}
