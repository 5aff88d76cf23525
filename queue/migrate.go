package queue

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
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
		return version, fmt.Errorf("%w: its schema is %d, this program knows %d; install that version again", ErrNewerSchema, version, Schema())
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

// checkLineage refuses a file whose history is another than the one asked for.
func checkLineage(ctx context.Context, conn *sql.Conn, version int, want string) error {
	if want == "" || version == 0 {
		return nil
	}
	var got string
	if err := conn.QueryRowContext(ctx, "select v from meta where k='lineage'").Scan(&got); err != nil {
		return fmt.Errorf("lineage: %w", err)
	}
	if got != want {
		return fmt.Errorf("%w of this lineage: it belongs to %s, not to %s", ErrForeignFile, got, want)
	}
	return nil
}

// migrate brings a file of an earlier version up to date, and gives a new one
// its lineage if the caller has one for it.
func migrate(ctx context.Context, conn *sql.Conn, version int, lineage string) error {
	for i, name := range migrations()[version:] {
		text, err := schemaFS.ReadFile(name)
		if err != nil {
			return err
		}
		step := func(text string, args ...any) {
			if err == nil {
				_, err = conn.ExecContext(ctx, text, args...)
			}
		}
		step("begin immediate")
		step(string(text))
		if version+i == 0 && lineage != "" {
			step("update meta set v=? where k='lineage'", lineage)
		}
		step(fmt.Sprintf("pragma application_id = %d; pragma user_version = %d", applicationID, version+i+1))
		step("commit")
		if err != nil {
			// Its own context: that of the caller may be what ended the step.
			conn.ExecContext(context.WithoutCancel(ctx), "rollback") //nolint:errcheck // the error above is the one to tell
			return fmt.Errorf("migrate %s: %w", path.Base(name), err)
		}
	}
	return nil
}

var createTable = regexp.MustCompile(`(?m)^create table (\w+)`)

// tableNames returns the names of the queue's own tables; a file may hold
// others, made by a Tx.
func tableNames() (names []string, err error) {
	for _, file := range migrations() {
		text, err := schemaFS.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range createTable.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names, nil
}

// SQLiteVersion returns the version of SQLite that is linked in, such as
// "3.51.3".
func SQLiteVersion() string { return sqlite3.SQLITE_VERSION }
