package queue

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Each file of schema takes the database one version up, in one transaction;
// its number is the user_version that it leaves. Files are only ever added.
//
//go:embed schema/*.sql
var schemaFS embed.FS

// applicationID marks the file as ours in SQLite's header ("HFQ1").
const applicationID = 0x48465131

func migrations() []string {
	names, err := fs.Glob(schemaFS, "schema/*.sql")
	if err != nil {
		panic(err) // a constant pattern
	}
	sort.Strings(names)
	return names
}

// Schema returns the version of the schema that this program writes.
func Schema() int { return len(migrations()) }

// checkSchema returns the file's version. It refuses, and leaves as it is, a
// file that is newer or not ours.
func checkSchema(ctx context.Context, conn *sql.Conn) (version int, err error) {
	var app, tables int
	err = conn.QueryRowContext(ctx, `select (select user_version from pragma_user_version), (select application_id from pragma_application_id),
 (select count(*) from sqlite_schema)`).Scan(&version, &app, &tables)
	switch {
	case err != nil:
		return 0, err
	case app != applicationID && (app != 0 || tables > 0):
		return 0, fmt.Errorf("%w (application_id %#x, %d tables)", ErrForeignFile, app, tables)
	case version > Schema():
		return 0, fmt.Errorf("%w: its schema is %d, this program knows %d; install that version again", ErrNewerSchema, version, Schema())
	}
	return version, nil
}

// asForeign says of a file that SQLite cannot read as a database that it is
// not ours.
func asForeign(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return fmt.Errorf("%w: %w", ErrForeignFile, err)
	}
	return err
}

// migrate brings a file of an earlier version up to date.
func migrate(ctx context.Context, conn *sql.Conn, version int) error {
	for i, name := range migrations()[version:] {
		text, err := schemaFS.ReadFile(name)
		if err != nil {
			return err
		}
		up := fmt.Sprintf("begin immediate; %s; pragma application_id = %d; pragma user_version = %d; commit",
			text, applicationID, version+i+1)
		if _, err := conn.ExecContext(ctx, up); err != nil {
			conn.ExecContext(ctx, "rollback") //nolint:errcheck // the error above is the one to tell
			return fmt.Errorf("migrate %s: %w", path.Base(name), err)
		}
	}
	return nil
}

// SQLiteVersion returns the version of SQLite that is linked in, such as
// "3.51.3".
func SQLiteVersion() string { return sqlite3.SQLITE_VERSION }
