package hrana

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// session is one HTTP request. It holds one snapshot of the database from its
// first statement to its end: all of them see the same state.
type session struct {
	h      *Handler
	ctx    context.Context
	access Access
	stream *stream

	snap  Snapshot
	conn  *sql.Conn // nil until something is read
	watch *watch
	began bool   // a transaction
	seq   string // epoch.seq that the snapshot shows

	rows, bytes int // of the answer so far
}

// open takes a snapshot, once. Errors: *httpError.
func (s *session) open() error {
	if s.conn != nil {
		return nil
	}
	if err := s.h.slots.take(s.ctx); err != nil {
		return err
	}
	snap, err := s.h.opts.Source.Acquire(s.ctx)
	if err != nil {
		s.h.slots.give()
		if errors.Is(err, ErrUnavailable) {
			return refuse(http.StatusServiceUnavailable, "UNAVAILABLE", err.Error())
		}
		return fmt.Errorf("snapshot: %w", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, queryTime)
	defer cancel()
	conn, err := snap.DB.Conn(ctx)
	if err != nil {
		snap.Release()
		s.h.slots.give()
		return fmt.Errorf("snapshot: %w", err)
	}
	s.snap, s.conn = snap, conn
	if err := s.begin(); err != nil {
		s.close()
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// begin fixes the snapshot, and reads from it where it stands.
func (s *session) begin() error {
	return s.raw(func(c *conn) error {
		c.asOf = s.snap.AsOf.UnixMilli()
		s.watch = newWatch(s.ctx, s.snap.Revoked, queryTime, c.interrupt)
		if s.snap.Seq != "" {
			s.seq = s.snap.Seq
			return nil
		}
		s.began = true
		if _, err := c.ExecContext(context.Background(), "begin", nil); err != nil {
			return err
		}
		var err error
		s.seq, err = c.position()
		return err
	})
}

// position returns epoch.seq of the snapshot. Every request asks for it, so the
// statement is kept.
func (c *conn) position() (string, error) {
	if c.where == nil {
		stmt, err := c.PrepareContext(context.Background(), "select epoch, seq from node_status")
		if err != nil {
			return "", err
		}
		kept, ok := stmt.(stmtOf)
		if !ok {
			return "", errors.Join(fmt.Errorf("the driver's statement is a %T", stmt), stmt.Close())
		}
		c.where = kept
	}
	rows, err := c.where.QueryContext(context.Background(), nil)
	if err != nil {
		return "", err
	}
	row := make([]driver.Value, 2)
	err = rows.Next(row)
	return fmt.Sprintf("%v.%v", row[0], row[1]), errors.Join(err, rows.Close())
}

// close gives everything back. It may be called more than once.
func (s *session) close() {
	if s.conn == nil {
		return
	}
	if s.watch != nil {
		s.watch.end()
	}
	if s.began {
		s.rollback()
	}
	_ = s.conn.Close() // a second time after ErrBadConn
	s.conn = nil
	s.snap.Release()
	s.h.slots.give()
}

// rollback ends the transaction of the snapshot.
func (s *session) rollback() {
	s.began = false
	err := s.raw(func(c *conn) error {
		_, err := c.ExecContext(context.Background(), "rollback", nil)
		return err
	})
	if err != nil {
		// A connection that would keep its snapshot must not be used again.
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// raw runs f on the guarded connection.
func (s *session) raw(f func(c *conn) error) error {
	return s.conn.Raw(func(dc any) error {
		c, ok := dc.(*conn)
		if !ok {
			return fmt.Errorf("the database was not opened by Driver.Open, but is a %T", dc)
		}
		return f(c)
	})
}

// first reads the first row of a statement of ours.
func (c *conn) first(query string, row []driver.Value) error {
	rows, err := c.QueryContext(context.Background(), query, nil)
	if err != nil {
		return err
	}
	err = rows.Next(row)
	return errors.Join(err, rows.Close())
}

// key returns the key of batons.
func (s *session) key() ([]byte, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	row := make([]driver.Value, 1)
	err := s.raw(func(c *conn) error {
		return c.first("select v from meta where k = 'baton_key'", row)
	})
	key, ok := row[0].([]byte)
	if err != nil || !ok || len(key) < 16 {
		return nil, fmt.Errorf("the baton key in meta: %w", errors.Join(err, s.watch.err()))
	}
	return key, nil
}

// resume takes over the stream of a baton, which may be empty.
func (s *session) resume(baton string) error {
	s.stream = &stream{}
	if baton == "" {
		return nil
	}
	key, err := s.key()
	if err != nil {
		return err
	}
	s.stream, err = unseal(key, baton, s.h.opts.Now())
	return err
}

// baton returns the one that goes with the answer; nil when there is no state,
// since a client that has one closes its stream with another request.
func (s *session) baton() (*string, error) {
	if s.stream.empty() {
		return nil, nil
	}
	key, err := s.key()
	if err != nil {
		return nil, err
	}
	baton, err := seal(key, s.stream, s.h.opts.Now())
	return &baton, err
}

// header states what the answer shows.
func (s *session) header(h http.Header) {
	if s.conn == nil {
		return
	}
	h.Set("Holdfast-Seq", s.seq)
	h.Set("Holdfast-As-Of", strconv.FormatInt(s.snap.AsOf.UnixMilli(), 10))
	h.Set("Holdfast-Lag-Ms", strconv.FormatInt(max(s.h.opts.Now().Sub(s.snap.AsOf).Milliseconds(), 0), 10))
}

// single returns the one statement of a text.
func single(text string) (*statement, error) {
	if len(text) > maxSQL {
		return nil, &stmtError{fmt.Sprintf("a statement may have %d bytes", maxSQL), codeTooBig}
	}
	switch all := split(text); len(all) {
	case 0:
		return nil, &stmtError{"there is no statement", codeNoStatement}
	case 1:
		return &all[0], nil
	default:
		return nil, &stmtError{"there is more than one statement; send a batch or a sequence", codeManyStatements}
	}
}

// execute runs one statement with its arguments.
func (s *session) execute(q *stmt) (*stmtResult, error) {
	text, err := s.stream.text(q.sqlText)
	if err != nil {
		return nil, err
	}
	st, err := single(text)
	if err != nil {
		return nil, err
	}
	args, err := q.args()
	if err != nil {
		return nil, err
	}
	return s.run(st, args, q.WantRows == nil || *q.WantRows)
}

func (q *stmt) args() ([]driver.NamedValue, error) {
	if len(q.Args) > 0 && len(q.NamedArgs) > 0 {
		return nil, &stmtError{"both positional and named arguments are given", codeBothArgs}
	}
	var args []driver.NamedValue
	for i, a := range q.Args {
		args = append(args, driver.NamedValue{Ordinal: i + 1, Value: a.v})
	}
	for i, a := range q.NamedArgs {
		name := a.Name
		if name != "" && (name[0] == ':' || name[0] == '@' || name[0] == '$') {
			name = name[1:]
		}
		if name == "" {
			return nil, &stmtError{"an argument has no name", codeArgs}
		}
		args = append(args, driver.NamedValue{Name: name, Ordinal: i + 1, Value: a.Value.v})
	}
	return args, nil
}

// run runs one statement: as a flag of the stream, or in SQLite.
func (s *session) run(st *statement, args []driver.NamedValue, wantRows bool) (*stmtResult, error) {
	if is, err := s.stream.control(st); is {
		return emptyResult(), err
	}
	if err := admit(st); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	begun := time.Now()
	result := emptyResult()
	err := s.guarded(st, func(c *conn) error { return s.query(c, st.text, args, wantRows, result) })
	if err != nil {
		return nil, err
	}
	result.DurationMS = float64(time.Since(begun).Microseconds()) / 1000
	return result, nil
}

// guarded runs f under the guard of a statement, and turns what it returns into
// what a client may see.
func (s *session) guarded(st *statement, f func(c *conn) error) error {
	if err := s.watch.err(); err != nil {
		return err
	}
	g := newGuard(st, s.access)
	err := s.raw(func(c *conn) error {
		c.guard = g
		defer func() { c.guard = nil }()
		// As a value: an error of the driver that means a bad connection
		// must not make database/sql close it under us.
		return opaque(f(c))
	})
	var o *opaqueError
	if errors.As(err, &o) {
		err = o.err
	}
	switch {
	case err == nil:
		return nil
	case s.watch.err() != nil:
		return s.watch.err()
	case g.denied != nil:
		return g.denied
	}
	if e, ok := publicError(err); ok {
		return e
	}
	s.h.log.Error("query failed", "err", err)
	return &stmtError{"internal error; the node's log has the cause", codeInternal}
}

// opaqueError hides what it holds from errors.Is.
type opaqueError struct{ err error }

func (e *opaqueError) Error() string { return e.err.Error() }

func opaque(err error) error {
	if err == nil {
		return nil
	}
	return &opaqueError{err}
}

// query fills in result.
func (s *session) query(c *conn, text string, args []driver.NamedValue, wantRows bool, result *stmtResult) error {
	// Without the context, which would end the query up to its first row only;
	// the watch ends it wherever it is.
	rows, err := c.QueryContext(context.Background(), text, args)
	if err != nil {
		return argsError(err)
	}
	err = s.fetch(rows, wantRows, result)
	return errors.Join(err, rows.Close())
}

func (s *session) fetch(rows driver.Rows, wantRows bool, result *stmtResult) error {
	types, ok := rows.(driver.RowsColumnTypeDatabaseTypeName)
	if !ok {
		return fmt.Errorf("the driver's rows are a %T", rows)
	}
	for i, name := range rows.Columns() {
		result.Cols = append(result.Cols, newColumn(name, types.ColumnTypeDatabaseTypeName(i)))
		s.bytes += len(name)
	}
	row := make([]driver.Value, len(result.Cols))
	for {
		err := rows.Next(row)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.watch.err(); err != nil {
			return err
		}
		result.RowsRead++
		if !wantRows {
			continue
		}
		encoded, err := appendRow(nil, row)
		if err != nil {
			return err
		}
		if s.rows++; s.rows > maxRows {
			return &stmtError{fmt.Sprintf("an answer may have %d rows; use LIMIT", maxRows), codeResponse}
		}
		if s.bytes += len(encoded); s.bytes > maxAnswer {
			return &stmtError{fmt.Sprintf("an answer may have %d bytes; use LIMIT, or select less", maxAnswer), codeResponse}
		}
		result.Rows = append(result.Rows, encoded)
	}
}

func appendRow(out []byte, row []driver.Value) ([]byte, error) {
	out = append(out, '[')
	for i, v := range row {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendValue(out, v); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func newColumn(name, decltype string) column {
	if decltype == "" {
		return column{name, nil}
	}
	return column{name, &decltype}
}

// argsError tells an argument that is missing, of which the driver has no type
// of error, from what SQLite says.
func argsError(err error) error {
	if _, known := publicError(err); known || isSQLite(err) {
		return err
	}
	return &stmtError{err.Error(), codeArgs}
}
