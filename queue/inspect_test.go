package queue_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/queue"
)

// crashed copies the files of an open queue, as a crash would leave them.
func crashed(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "q.db")
	for _, suffix := range []string{"", "-wal"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestInspect(t *testing.T) {
	inspect := func(t *testing.T, path string) queue.Identity {
		t.Helper()
		files := map[string][]byte{}
		for _, suffix := range []string{"", "-wal"} {
			files[suffix], _ = os.ReadFile(path + suffix)
		}
		id, err := queue.Inspect(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		for suffix, before := range files {
			if after, _ := os.ReadFile(path + suffix); !bytes.Equal(before, after) {
				t.Errorf("q.db%s was changed: %d bytes, then %d", suffix, len(before), len(after))
			}
		}
		if age := time.Since(id.CommittedAt); age < 0 || age > 10*time.Minute {
			t.Errorf("the last commit was at %s", id.CommittedAt)
		}
		id.CommittedAt = time.Time{}
		return id
	}
	t.Run("an open file, one left by a crash and a closed one tell the same", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "q.db")
		q := open(t, path, queue.Options{Lineage: "ours", Epoch: 3})
		enqueue(t, q, queue.Spec{Queue: "mail"})
		enqueue(t, q, queue.Spec{Queue: "mail"})
		want := queue.Identity{Lineage: "ours", Epoch: 3, Seq: q.Seq().N, Schema: queue.Schema()}
		if got := inspect(t, path); got != want {
			t.Errorf("open: %+v, want %+v", got, want)
		}
		enqueue(t, q, queue.Spec{Queue: "mail"}) // the queue goes on
		want.Seq = q.Seq().N
		left := crashed(t, path)
		if info, err := os.Stat(left + "-wal"); err != nil || info.Size() == 0 {
			t.Fatalf("the crash left no WAL: %v", err)
		}
		for range 2 {
			if got := inspect(t, left); got != want {
				t.Errorf("left by a crash: %+v, want %+v", got, want)
			}
		}
		if q := open(t, left, queue.Options{}); len(claim(t, q, 10, "mail")) != 3 {
			t.Error("jobs are missing after the look")
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if got := inspect(t, path); got != want {
			t.Errorf("closed: %+v, want %+v", got, want)
		}
	})
	t.Run("a file of another lineage is refused by Open, and both are named", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "q.db")
		if err := open(t, path, queue.Options{Lineage: "ours"}).Close(); err != nil {
			t.Fatal(err)
		}
		_, err := queue.Open(ctx, path, queue.Options{Lineage: "theirs"})
		wantErr(t, err, queue.ErrForeignFile)
		if !strings.Contains(err.Error(), "ours") || !strings.Contains(err.Error(), "theirs") {
			t.Errorf("the message names not both: %v", err)
		}
		open(t, path, queue.Options{Lineage: "ours"})
	})
	t.Run("a newer file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "q.db")
		if err := open(t, path, queue.Options{Lineage: "ours"}).Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite(t, path).Exec("pragma user_version = 999; alter table counts rename column seq to elsewhere"); err != nil {
			t.Fatal(err)
		}
		id, err := queue.Inspect(ctx, path)
		wantErr(t, err, queue.ErrNewerSchema)
		if want := (queue.Identity{Lineage: "ours", Epoch: 1, Schema: 999}); id != want {
			t.Errorf("got %+v, want %+v", id, want)
		}
	})
	t.Run("what is no database of ours", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "q.db")
		_, err := queue.Inspect(ctx, path)
		wantErr(t, err, fs.ErrNotExist)
		for name, c := range map[string]struct {
			text string
			want error
		}{
			"empty":   {"", queue.ErrEmptyFile},
			"foreign": {strings.Repeat("not a database\n", 1000), queue.ErrForeignFile},
		} {
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := queue.Inspect(ctx, path)
			if wantErr(t, err, c.want); err == nil {
				t.Error(name)
			}
		}
	})
}

func TestOnCommit(t *testing.T) {
	var seen []queue.Seq
	q := open(t, filepath.Join(t.TempDir(), "q.db"), queue.Options{OnCommit: func(s queue.Seq) { seen = append(seen, s) }})
	enqueue(t, q, queue.Spec{Queue: "mail"})
	if len(claim(t, q, 1, "other")) != 0 { // no commit
		t.Error("claimed from an empty queue")
	}
	claimOne(t, q, "mail")
	if len(seen) != 2 || seen[1] != q.Seq() || seen[0].N+1 != seen[1].N {
		t.Errorf("told of %v, the last commit is %v", seen, q.Seq())
	}
}
