package hrana

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// asOfFunction is the SQL function for how old the copy is: Unix milliseconds.
const asOfFunction = "as_of_ms"

// Driver opens databases whose connections are guarded. A process needs one,
// for all databases that it ever opens.
type Driver struct {
	sqlite sqlite.Driver

	mu    sync.RWMutex
	conns map[uintptr]*conn // by SQLite's handle
}

// NewDriver returns a driver.
func NewDriver() (*Driver, error) {
	d := &Driver{conns: map[uintptr]*conn{}}
	err := d.sqlite.RegisterFunction(asOfFunction, &sqlite.FunctionImpl{Scalar: d.asOf})
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", asOfFunction, err)
	}
	return d, nil
}

// Open returns a pool of guarded connections to the file that dsn names, in the
// form of modernc.org/sqlite. It must say mode=ro, and immutable=1 for a file
// that nobody changes.
func (d *Driver) Open(dsn string) *sql.DB { return sql.OpenDB(&connector{d, dsn}) }

type connector struct {
	driver *Driver
	dsn    string
}

// Driver implements [driver.Connector].
func (c *connector) Driver() driver.Driver { return &c.driver.sqlite }

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw, err := c.driver.sqlite.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	opened, err := c.driver.adopt(raw)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return opened, nil
}

// sqliteConn is what the connections of modernc.org/sqlite can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	sqlite.AuthorizerRegisterer
	ColumnInfo(query string) ([]sqlite.ColumnInfo, error)
}

// conn is a guarded connection. Statements of ours run while it has no guard,
// those of clients under one.
type conn struct {
	sqliteConn
	driver *Driver
	handle uintptr // of SQLite
	guard  *guard  // of the statement of a client that is under way
	where  stmtOf  // reads where the snapshot stands; nil until that is asked
	asOf   int64   // Unix milliseconds, of the request that is under way
}

// stmtOf is what the statements of modernc.org/sqlite can do.
type stmtOf interface {
	driver.Stmt
	driver.StmtQueryContext
}

// Close implements [driver.Conn].
func (c *conn) Close() error {
	if c.where != nil {
		c.where.Close() // the connection goes with it
	}
	c.driver.mu.Lock()
	delete(c.driver.conns, c.handle)
	c.driver.mu.Unlock()
	return c.sqliteConn.Close()
}

// adopt puts a new connection under guard.
func (d *Driver) adopt(raw driver.Conn) (*conn, error) {
	inner, ok := raw.(sqliteConn)
	if !ok {
		return nil, fmt.Errorf("hrana: the driver's connection is a %T", raw)
	}
	handle, err := pointer(raw, "db")
	if err != nil {
		return nil, err
	}
	c := &conn{sqliteConn: inner, driver: d, handle: handle}
	if err := inner.RegisterAuthorizer(c.authorize); err != nil {
		return nil, err
	}
	if err := c.settle(); err != nil {
		return nil, err
	}
	c.limit()
	d.mu.Lock()
	d.conns[handle] = c
	d.mu.Unlock()
	return c, nil
}

// settle makes the connection one that only reads. None of it is the guard; it
// is what remains if the guard had a hole.
func (c *conn) settle() error {
	for _, pragma := range []string{
		"query_only = 1", "trusted_schema = 0", "cell_size_check = 1", "temp_store = memory", "mmap_size = 0", "busy_timeout = 1000",
	} {
		if _, err := c.ExecContext(context.Background(), "pragma "+pragma, nil); err != nil {
			return fmt.Errorf("pragma %s: %w", pragma, err)
		}
	}
	return nil
}

// limit bounds what a statement may be made of.
func (c *conn) limit() {
	tls := libc.NewTLS()
	defer tls.Close()
	for _, l := range []struct{ id, value int32 }{
		{sqlite3.SQLITE_LIMIT_LENGTH, 128 << 10},
		{sqlite3.SQLITE_LIMIT_SQL_LENGTH, maxSQL},
		{sqlite3.SQLITE_LIMIT_COLUMN, 200},
		{sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100},
		{sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 20},
		{sqlite3.SQLITE_LIMIT_VDBE_OP, 250_000},
		{sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 64},
		{sqlite3.SQLITE_LIMIT_ATTACHED, 0},
		{sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 256}, // no interrupt reaches a match
		{sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, maxParams},
		{sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1},
		{sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0},
	} {
		sqlite3.Xsqlite3_limit(tls, c.handle, l.id, l.value)
	}
}

func (c *conn) authorize(action sqlite.AuthorizerActionCode, arg1, arg2, database, view string) sqlite.AuthorizerReturnCode {
	if c.guard == nil {
		return sqlite.AuthorizerOK
	}
	return c.guard.authorize(action, arg1, arg2, database, view)
}

// interrupt ends the statement that is under way, whatever goroutine runs it.
// The driver ends one by its context up to its first row alone.
func (c *conn) interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, c.handle)
}

// asOf is the SQL function as_of_ms. It is the driver's, and finds the
// connection that calls it.
func (d *Driver) asOf(ctx *sqlite.FunctionContext, _ []driver.Value) (driver.Value, error) {
	at, err := pointer(ctx, "ctx")
	if err != nil {
		return nil, err
	}
	tls := libc.NewTLS()
	handle := sqlite3.Xsqlite3_context_db_handle(tls, at)
	tls.Close()
	d.mu.RLock()
	defer d.mu.RUnlock()
	c, ok := d.conns[handle]
	if !ok || c.asOf == 0 {
		return nil, nil
	}
	return c.asOf, nil
}

// pointer reads SQLite's own pointer out of a value of the driver, which has no
// method for it. Reading a field through reflect is safe; should the driver
// rename it, this is an error, and nothing is served.
func pointer(of any, field string) (uintptr, error) {
	v := reflect.ValueOf(of)
	if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if f := v.Elem().FieldByName(field); f.Kind() == reflect.Uintptr && f.Uint() != 0 {
			return uintptr(f.Uint()), nil
		}
	}
	return 0, fmt.Errorf("hrana: %T of this version of modernc.org/sqlite has no pointer %s", of, field)
}
