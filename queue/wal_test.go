package queue

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var everyByte = flag.Bool("bytes", false, "TestWALCut cuts at every byte, not at a sample")

// TestWALCut cuts or damages the WAL of a crashed queue in its last commits.
// The file opens, and every job that was acknowledged before the first damaged
// frame is there.
func TestWALCut(t *testing.T) {
	const frame = 24 + 4096
	path := filepath.Join(t.TempDir(), "q.db")
	q, err := Open(ctx, path, Options{DiskWatermark: -1, ExternalCheckpoints: true})
	if err != nil {
		t.Fatal(err)
	}
	type commit struct {
		end int64 // of the WAL after it
		id  int64
	}
	var commits []commit
	for range 6 {
		id := mustEnqueue(t, q, Spec{Queue: "mail", Payload: fmt.Appendf(nil, `"%0300d"`, 0)})[0].ID
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		commits = append(commits, commit{info.Size(), id})
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyPath := filepath.Join(dir, "q.db")
	write := func(wal []byte) {
		for name, text := range map[string][]byte{copyPath: db, copyPath + "-wal": wal} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		os.Remove(copyPath + "-shm")
	}
	check := func(what string, at int64, ids map[int64]bool) {
		for _, c := range commits {
			if c.end <= at && !ids[c.id] {
				t.Fatalf("%s at byte %d: job %d is lost, which was acknowledged at byte %d", what, at, c.id, c.end)
			}
		}
	}
	from, n := commits[2].end, 0
	for at := from; at <= int64(len(wal)); at++ {
		in := (at - 32) % frame // the WAL has a header of 32 bytes
		if !*everyByte && in%613 != 0 && in != 4 && in != 23 {
			continue
		}
		damaged := bytes.Clone(wal)
		if at < int64(len(wal)) {
			damaged[at] ^= 0x55
		}
		for what, wal := range map[string][]byte{"cut": wal[:at], "damaged": damaged} {
			write(wal)
			check(what, at, idsOf(t, copyPath))
		}
		if n++; n%10 != 0 {
			continue
		}
		write(damaged)
		q, err := Open(ctx, copyPath, Options{DiskWatermark: -1})
		if err != nil {
			t.Fatalf("damaged at byte %d: %v", at, err)
		}
		ids := map[int64]bool{}
		for j, err := range q.Export(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			ids[j.ID] = true
		}
		check("opened after damage", at, ids)
		if next := mustEnqueue(t, q, Spec{Queue: "mail"})[0].ID; ids[next] {
			t.Errorf("id %d was given twice", next)
		}
		mustRecount(t, q)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d places in %d bytes", n, int64(len(wal))-from)
}

// idsOf opens a file as SQLite does and reads the jobs in it.
func idsOf(t *testing.T, path string) map[int64]bool {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("select id from jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ids := map[int64]bool{}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}
