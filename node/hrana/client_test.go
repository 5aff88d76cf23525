package hrana_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	_ "github.com/tursodatabase/libsql-client-go/libsql" // the driver "libsql"

	"holdfast/node/hrana"
)

// TestGoClient reads with libsql-client-go.
func TestGoClient(t *testing.T) {
	d := newDatabase(t)
	s := newServer(t, hrana.Options{Source: newSource(t, d.path), Authorize: byToken(map[string]hrana.Access{"secret": hrana.AccessView})})
	open := func(t *testing.T, token string) *sql.DB {
		t.Helper()
		db, err := sql.Open("libsql", strings.Replace(s.url, "http://", "libsql://", 1)+"?tls=0&authToken="+token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	ctx := t.Context()
	db := open(t, "secret")
	t.Run("it reads a view", func(t *testing.T) {
		rows, err := db.QueryContext(ctx, "select queue, queued, last_error from queue_health where queue in (?, ?) order by queue", "mail", "thumbs")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var got []string
		for rows.Next() {
			var queue string
			var queued int
			var last sql.NullString
			if err := rows.Scan(&queue, &queued, &last); err != nil {
				t.Fatal(err)
			}
			got = append(got, queue+" "+last.String)
		}
		if err := rows.Err(); err != nil || !slices.Equal(got, []string{"mail smtp 451", "thumbs "}) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("it reads every kind of value, by name", func(t *testing.T) {
		var i int64
		var f float64
		var s string
		var b []byte
		err := db.QueryRowContext(ctx, "select :i, :f, :s, x'00ff'", sql.Named("i", 7), sql.Named("f", 0.5), sql.Named("s", "ä")).Scan(&i, &f, &s, &b)
		if err != nil || i != 7 || f != 0.5 || s != "ä" || string(b) != "\x00\xff" {
			t.Errorf("got %d %g %q %x, %v", i, f, s, b, err)
		}
	})
	t.Run("it reads in a transaction", func(t *testing.T) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRowContext(ctx, "select count(*) from jobs_recent").Scan(&n); err != nil || n != 5 {
			t.Errorf("got %d, %v", n, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	})
	t.Run("it is told that it cannot write", func(t *testing.T) {
		if _, err := db.ExecContext(ctx, "delete from jobs"); err == nil || !strings.Contains(err.Error(), "read only") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("it is told that its token is wrong", func(t *testing.T) {
		var n int
		if err := open(t, "wrong").QueryRowContext(ctx, "select 1").Scan(&n); err == nil || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "token") {
			t.Errorf("got %v", err)
		}
	})
}
