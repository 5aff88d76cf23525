package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"holdfast/queue"
)

// TestReader: a copy that is open for reading shows what the queue showed.
func TestReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q := open(t, path, queue.Options{Lineage: "ours", Epoch: 3})
	ids := enqueue(t, q, queue.Spec{Queue: "mail", Payload: []byte(`{"n":1}`)})
	want, err := q.Job(ctx, ids[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	seq := q.Seq().N
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	db := sqlite(t, path)
	id, err := queue.InspectCopy(ctx, db)
	if err != nil || id.Lineage != "ours" || id.Epoch != 3 || id.Seq != seq || id.CommittedAt.IsZero() {
		t.Errorf("got %+v, %v", id, err)
	}
	held := 0
	r := queue.NewReader(func(context.Context) (*sql.DB, func(), error) { held++; return db, func() { held-- }, nil })
	got, err := r.Job(ctx, ids[0].ID)
	if err != nil || string(got.Payload) != string(want.Payload) || got.State != want.State {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := r.Job(ctx, 999); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if infos, err := r.Queues(ctx); err != nil || len(infos) != 1 || infos[0].Counts.Queued != 1 {
		t.Errorf("got %+v, %v", infos, err)
	}
	if held != 0 {
		t.Errorf("%d states were not released", held)
	}
	gone := errors.New("gone")
	r = queue.NewReader(func(context.Context) (*sql.DB, func(), error) { return nil, nil, gone })
	if _, err := r.Queues(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
