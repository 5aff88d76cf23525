package queue_test

import (
	"path/filepath"
	"testing"

	"holdfast/queue"
)

// TestFloor: the yardstick does the work that it is a yardstick for.
func TestFloor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	took, err := queue.Floor(ctx, path, 200, 64, payload("x"))
	if err != nil || took <= 0 {
		t.Fatalf("%v, %v", took, err)
	}
	q := open(t, path, queue.Options{})
	infos, err := q.Queues(ctx)
	if err != nil || len(infos) != 1 || infos[0].Counts.Done != 256 {
		t.Errorf("got %+v, %v, want 256 jobs done", infos, err)
	}
	checkCounts(t, path)
}
