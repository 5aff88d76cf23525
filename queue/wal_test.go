package queue

import (
	"bytes"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
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
	check := func(what string, at int64, ids map[int64]bool) {
		for _, c := range commits {
			if c.end <= at && !ids[c.id] {
				t.Errorf("%s at byte %d: job %d is lost, which was acknowledged at byte %d", what, at, c.id, c.end)
			}
		}
	}
	from := commits[2].end
	var places []int64
	for at := from; at <= int64(len(wal)); at++ {
		in := (at - 32) % frame // the WAL has a header of 32 bytes
		if *everyByte || in%613 == 0 || in == 4 || in == 23 {
			places = append(places, at)
		}
	}
	var next atomic.Int64
	var hands sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		copyPath := filepath.Join(t.TempDir(), "q.db")
		hands.Go(func() {
			for n := next.Add(1); n <= int64(len(places)) && !t.Failed(); n = next.Add(1) {
				at := places[n-1]
				damaged := bytes.Clone(wal)
				if at < int64(len(wal)) {
					damaged[at] ^= 0x55
				}
				for what, wal := range map[string][]byte{"cut": wal[:at], "damaged": damaged} {
					putCopy(t, copyPath, db, wal)
					check(what, at, idsOf(t, copyPath))
					if n%10 == 0 { // the rest is SQLite's alone, and much quicker
						putCopy(t, copyPath, db, wal)
						check("opened as a queue and "+what, at, idsOfQueue(t, copyPath))
					}
				}
			}
		})
	}
	hands.Wait()
	t.Logf("%d places in %d bytes", len(places), int64(len(wal))-from)
}

// putCopy writes a database and its WAL as a crash would have left them.
func putCopy(t *testing.T, path string, db, wal []byte) {
	t.Helper()
	for name, text := range map[string][]byte{path: db, path + "-wal": wal} {
		os.Remove(name) // to write over a file would wait for the disk on some file systems
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Error(err)
		}
	}
	os.Remove(path + "-shm")
}

// idsOfQueue opens a file as a queue, which must work, and returns the jobs in
// it.
func idsOfQueue(t *testing.T, path string) map[int64]bool {
	t.Helper()
	ids := map[int64]bool{}
	q, err := Open(ctx, path, Options{DiskWatermark: -1})
	if err != nil {
		t.Error(err)
		return ids
	}
	defer q.Close()
	for j, err := range q.Export(ctx) {
		if err != nil {
			t.Error(err)
			return ids
		}
		ids[j.ID] = true
	}
	out, _, err := q.Enqueue(ctx, Spec{Queue: "mail"})
	if err != nil {
		t.Error(err)
	} else if ids[out[0].ID] {
		t.Errorf("id %d was given twice", out[0].ID)
	}
	mustRecount(t, q)
	return ids
}

// idsOf opens a file as SQLite does, which recovers it, and reads the jobs in
// it. It does not wait for the disk: nobody needs the copy afterwards.
func idsOf(t *testing.T, path string) map[int64]bool {
	t.Helper()
	ids := map[int64]bool{}
	db, err := sql.Open("sqlite", dsn(path, "rw")+"&_pragma=synchronous(0)")
	if err != nil {
		t.Error(err)
		return ids
	}
	defer db.Close()
	rows, err := db.Query("select id from jobs")
	if err != nil {
		t.Error(err)
		return ids
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Error(err)
		}
		ids[id] = true
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
	return ids
}
