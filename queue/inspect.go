package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Identity tells which history a file belongs to and how far it came.
type Identity struct {
	Lineage string
	Epoch   int64
	Seq     int64 // the last commit, as Seq.N
	Schema  int   // the version of the schema
	Tokens  int   // access tokens that are not revoked
	// CommittedAt is when the last commit was made, by the primary's clock; zero:
	// there was none yet.
	CommittedAt time.Time
}

// Inspect looks at a file, which may be open in this process or have been left
// by a crash, and leaves it and its WAL as they are. The file must not be open
// in another process.
//
// Errors: ErrEmptyFile for a file without a database in it (of 0 bytes, or
// left by an Open that was cut short); ErrForeignFile; ErrNewerSchema, with
// what could be read of the Identity; fs.ErrNotExist.
func Inspect(ctx context.Context, path string) (Identity, error) {
	id, err := inspect(ctx, path)
	if err != nil {
		err = fmt.Errorf("inspect %s: %w", path, asForeign(err))
	}
	return id, err
}

func inspect(ctx context.Context, path string) (id Identity, err error) {
	// Only stat: to open and close the file beside SQLite would drop the locks
	// that this process holds on it.
	info, err := os.Stat(path)
	if err != nil {
		return id, err
	}
	if info.Size() == 0 {
		return id, ErrEmptyFile
	}
	name := dsn(path, "ro") // a connection that cannot write to the file does not checkpoint when it closes
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		name += "&immutable=1" // nobody has it open; makes neither -wal nor -shm
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return id, err
	}
	defer conn.Close()
	id.Schema, err = checkSchema(ctx, conn)
	if err != nil && !errors.Is(err, ErrNewerSchema) {
		return id, err
	}
	if id.Schema == 0 {
		return id, ErrEmptyFile
	}
	return id, errors.Join(err, id.read(ctx, conn, err != nil))
}

// read fills in the identity; what a newer schema keeps elsewhere stays empty.
func (id *Identity) read(ctx context.Context, conn *sql.Conn, newer bool) error {
	var committed int64
	for _, field := range []struct {
		query string
		dst   any
	}{
		{"select v from meta where k='lineage'", &id.Lineage},
		{"select v from meta where k='epoch'", &id.Epoch},
		{"select seq from counts where id=0", &id.Seq},
		{"select committed_at from counts where id=0", &committed},
		{"select count(*) from tokens where revoked_at is null", &id.Tokens},
	} {
		if err := conn.QueryRowContext(ctx, field.query).Scan(field.dst); err != nil && !newer {
			return err
		}
	}
	if committed > 0 {
		id.CommittedAt = fromMS(committed)
	}
	return nil
}
