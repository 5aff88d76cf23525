package queue_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"holdfast/queue"
)

var ctx = context.Background()

func open(t *testing.T, path string, opts queue.Options) *queue.Queue {
	t.Helper()
	if opts.DiskWatermark == 0 {
		opts.DiskWatermark = -1
	}
	q, err := queue.Open(ctx, path, opts)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return q
}

func newQueue(t *testing.T) (*queue.Queue, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "q.db")
	return open(t, path, queue.Options{}), path
}

func enqueue(t *testing.T, q *queue.Queue, specs ...queue.Spec) []queue.Enqueued {
	t.Helper()
	out, _, err := q.Enqueue(ctx, specs...)
	if err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
	return out
}

func claim(t *testing.T, q *queue.Queue, max int, queues ...string) []queue.Claimed {
	t.Helper()
	out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: queues, Max: max, Worker: "test:1:a"})
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return out.Jobs
}

func claimOne(t *testing.T, q *queue.Queue, name string) queue.Claimed {
	t.Helper()
	jobs := claim(t, q, 1, name)
	if len(jobs) != 1 {
		t.Fatalf("claimed %d jobs of %s, want 1", len(jobs), name)
	}
	return jobs[0]
}

func ack(t *testing.T, q *queue.Queue, lease string) error {
	t.Helper()
	res, _, err := q.Ack(ctx, []queue.Ack{{Lease: lease}})
	if err != nil {
		t.Fatalf("Ack: %v", err)
	}
	return res[0].Err
}

func fail(t *testing.T, q *queue.Queue, f queue.Fail) queue.Result {
	t.Helper()
	res, _, err := q.Fail(ctx, []queue.Fail{f})
	if err != nil {
		t.Fatalf("Fail: %v", err)
	}
	return res[0]
}

func job(t *testing.T, q *queue.Queue, id int64) queue.Job {
	t.Helper()
	j, err := q.Job(ctx, id)
	if err != nil {
		t.Fatalf("Job(%d): %v", id, err)
	}
	return j
}

// sqlite opens the file beside the queue, to look at it or to set a state up.
func sqlite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// checkCounts compares every counter with a recount of the rows.
func checkCounts(t *testing.T, path string) {
	t.Helper()
	db := sqlite(t, path)
	rows, err := db.Query(`select q.name, s.state,
 case s.state when 2 then c.blocked when 3 then c.scheduled when 4 then c.queued when 5 then c.running when 6 then c.done when 7 then c.dead else c.cancelled end,
 (select count(*) from jobs j where j.queue = q.id and j.state = s.state and not (j.state = 7 and j.flags & 16))
 from queues q join counts c on c.id = q.id, (select 2 as state union select 3 union select 4 union select 5 union select 6 union select 7 union select 8) s`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var state queue.State
		var counted, rowsThere int
		if err := rows.Scan(&name, &state, &counted, &rowsThere); err != nil {
			t.Fatal(err)
		}
		if counted != rowsThere {
			t.Errorf("%s %s: counter %d, rows %d", name, state, counted, rowsThere)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var check string
	if err := db.QueryRow("pragma integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity_check: %s, %v", check, err)
	}
}

func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", within, what)
}

func payload(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func names(jobs []queue.Claimed) string {
	s := ""
	for _, j := range jobs {
		s += fmt.Sprintf("%s/%d ", j.Queue, j.ID)
	}
	return s
}
