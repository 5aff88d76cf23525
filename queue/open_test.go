package queue_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/queue"
)

func TestOpen(t *testing.T) {
	t.Run("everything is there again, and ids and seq go on", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "dir with %20 and ?#", "q.db")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		q := open(t, path, queue.Options{})
		enqueue(t, q, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail"})
		c := claimOne(t, q, "mail")
		seq := q.Seq()
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q = open(t, path, queue.Options{})
		if q.Seq() != seq {
			t.Errorf("seq %v after a restart, %v before", q.Seq(), seq)
		}
		wantErr(t, ack(t, q, c.Lease), nil)
		if next := enqueue(t, q, queue.Spec{Queue: "mail"})[0]; next.ID <= c.ID+1 {
			t.Errorf("id %d was given again", next.ID)
		}
	})
	t.Run("a new epoch has ids of its own and takes no lease of the old", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "q.db")
		q := open(t, path, queue.Options{})
		enqueue(t, q, queue.Spec{Queue: "mail"})
		c := claimOne(t, q, "mail")
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q = open(t, path, queue.Options{Epoch: 3})
		wantErr(t, ack(t, q, c.Lease), queue.ErrLeaseLost)
		if in := enqueue(t, q, queue.Spec{Queue: "mail"})[0]; in.ID != 2<<36 || q.Seq().Epoch != 3 {
			t.Errorf("id %d, seq %v", in.ID, q.Seq())
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := queue.Open(ctx, path, queue.Options{Epoch: 2}); err == nil {
			t.Error("an earlier epoch was accepted")
		}
	})
	t.Run("a newer file is refused and left alone", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "q.db")
		if err := open(t, path, queue.Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite(t, path).Exec("pragma user_version = 999"); err != nil {
			t.Fatal(err)
		}
		_, err := queue.Open(ctx, path, queue.Options{})
		wantErr(t, err, queue.ErrNewerSchema)
		if !strings.Contains(err.Error(), "999") {
			t.Errorf("the message does not name the version: %v", err)
		}
	})
	t.Run("a database of another program is refused and left alone", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other.db")
		db := sqlite(t, path)
		if _, err := db.Exec("create table theirs(x)"); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		_, err := queue.Open(ctx, path, queue.Options{})
		wantErr(t, err, queue.ErrForeignFile)
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Error("the file was changed")
		}
	})
	t.Run("a file that is no database is refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "notes.txt")
		if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := queue.Open(ctx, path, queue.Options{})
		wantErr(t, err, queue.ErrForeignFile)
	})
	t.Run("a directory that is not there is named", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "missing", "q.db")
		if _, err := queue.Open(ctx, path, queue.Options{}); err == nil || !strings.Contains(err.Error(), "missing") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("after Close every call says so", func(t *testing.T) {
		q, _ := newQueue(t)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		_, _, err := q.Enqueue(ctx, queue.Spec{Queue: "mail"})
		wantErr(t, err, queue.ErrClosed)
		_, _, err = q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}})
		wantErr(t, err, queue.ErrClosed)
		_, err = q.Queues(ctx)
		wantErr(t, err, queue.ErrClosed)
	})
}

// TestIdle: nothing is written while nothing happens.
func TestIdle(t *testing.T) {
	q, path := newQueue(t)
	enqueue(t, q, queue.Spec{Queue: "mail"})
	before, _ := os.ReadFile(path + "-wal")
	seq := q.Seq()
	if len(claim(t, q, 1, "empty")) != 0 {
		t.Fatal("claimed from an empty queue")
	}
	if _, err := q.Queues(ctx); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(path + "-wal")
	if len(before) == 0 || string(before) != string(after) || q.Seq() != seq {
		t.Error("an empty claim or a look at the queues wrote to the WAL")
	}
}
