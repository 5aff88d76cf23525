package queue

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Plain ? throughout: the driver asks SQLite for the name of each numbered
// parameter, which is quadratic in a statement of many rows.

// sizes are the numbers of rows that a list statement is made for. Each
// execution costs about as much as two rows, so a list should take few.
var sizes = [...]int{64, 32, 16, 8, 4, 2, 1}

// listStmt is a statement over a list of rows, "…head row, row, row tail…", for
// each of sizes prepared when it is first used: they take memory.
type listStmt struct {
	conn            *sql.Conn
	head, row, tail string
	width           int  // parameters a row
	fills           bool // a row that comes twice counts once, so the last one can fill up a statement
	stmts           [len(sizes)]*sql.Stmt
}

func newListStmt(conn *sql.Conn, head, row, tail string) *listStmt {
	return &listStmt{conn: conn, head: head, row: row, tail: tail, width: strings.Count(row, "?"), fills: !strings.HasPrefix(head, "insert")}
}

// stmt returns the statement for sizes[i] rows.
func (l *listStmt) stmt(i int) (*sql.Stmt, error) {
	if l.stmts[i] == nil {
		text := l.head + strings.TrimSuffix(strings.Repeat(l.row+",", sizes[i]), ",") + l.tail
		stmt, err := l.conn.PrepareContext(context.Background(), text) //nolint:sqlclosecheck // by statements.close
		if err != nil {
			return nil, err
		}
		l.stmts[i] = stmt
	}
	return l.stmts[i], nil
}

// each calls run for every cut of rows, a flat list of parameters, with the
// statement for it and its parameters between pre and post.
func (l *listStmt) each(pre, rows, post []any, run func(*sql.Stmt, []any) error) error {
	args := make([]any, 0, len(pre)+min(2*len(rows), sizes[0]*l.width)+len(post))
	for len(rows) > 0 {
		i := l.cut(len(rows) / l.width)
		n := min(sizes[i]*l.width, len(rows))
		args = append(append(args[:0], pre...), rows[:n]...)
		for ; n < sizes[i]*l.width; n += l.width {
			args = append(args, rows[len(rows)-l.width:]...)
		}
		rows = rows[min(n, len(rows)):]
		stmt, err := l.stmt(i)
		if err != nil {
			return err
		}
		if err := run(stmt, append(args, post...)); err != nil {
			return err
		}
	}
	return nil
}

// cut returns the index of the size to take from a list of n rows. It is the
// largest that they fill, or the next where a few more rows fill that: 31 = 16 +
// 8 + 4 + 2 + 1, or 32.
func (l *listStmt) cut(n int) int {
	i := slices.IndexFunc(sizes[:], func(size int) bool { return size <= n })
	if l.fills && i > 0 && sizes[i] < n && sizes[i-1] <= n+n/3 {
		i--
	}
	return i
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
	return scanFirst(math.MaxInt, stmt, args, scan)
}

// scanFirst calls scan for the first n rows. That is cheaper than a "limit ?",
// for which SQLite plans the statement again whenever the number changes.
func scanFirst(n int, stmt *sql.Stmt, args []any, scan func(*sql.Rows) error) error {
	rows, err := stmt.Query(args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for ; n > 0 && rows.Next(); n-- {
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
