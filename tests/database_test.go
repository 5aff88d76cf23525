package tests_test

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite" // the tests look into files that no node holds
)

// openDatabase opens a database file that no process uses.
func openDatabase(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// checkDatabase runs SQLite's own check over a file that no process uses.
func checkDatabase(t *testing.T, path string) {
	t.Helper()
	db := openDatabase(t, path)
	var got string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&got); err != nil || got != "ok" {
		t.Errorf("integrity_check of %s: got %q, %v", path, got, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
