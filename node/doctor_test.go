package node_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/node"
	"holdfast/queue"
)

// stopped returns a data directory with a few jobs, as a stopped node leaves it.
func stopped(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	q, err := queue.Open(t.Context(), node.DatabasePath(dir), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, _, err := q.Enqueue(t.Context(), queue.Spec{Queue: "mail", Payload: []byte(`"` + strings.Repeat("x", 2000) + `"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestExamine(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		wrong  string // the checks that are not ok
	}{
		{"a whole directory is fine", func(*testing.T, string) {}, ""},
		{"a directory without a database is fine", func(t *testing.T, dir string) {
			if err := os.Remove(node.DatabasePath(dir)); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"a directory that is not there is told", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, "data directory"},
		{"a file of another program is told", func(t *testing.T, dir string) {
			if err := os.WriteFile(node.DatabasePath(dir), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "database"},
		{"damaged pages are told", func(t *testing.T, dir string) {
			f, err := os.OpenFile(node.DatabasePath(dir), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt([]byte(strings.Repeat("\xff", 8192)), info.Size()-8192)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}, "integrity"},
		{"a counter that is off is told", func(t *testing.T, dir string) {
			db, err := sql.Open("sqlite", "file:"+node.DatabasePath(dir))
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Exec("update counts set queued = queued + 3 where id > 0")
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
		}, "counters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := stopped(t)
			tt.damage(t, dir)
			before, _ := os.ReadFile(node.DatabasePath(dir))
			checks, err := node.Examine(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			var wrong []string
			for _, c := range checks {
				if !c.OK {
					wrong = append(wrong, c.Name)
				}
				if c.OK != (c.Fix == "") {
					t.Errorf("%+v", c)
				}
			}
			if got := strings.Join(wrong, ", "); !strings.Contains(got, tt.wrong) || tt.wrong == "" && got != "" {
				t.Errorf("got %q, want %q: %+v", got, tt.wrong, checks)
			}
			if after, _ := os.ReadFile(node.DatabasePath(dir)); string(after) != string(before) {
				t.Error("the database was changed")
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".doctor*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	t.Run("a directory in use is left alone", func(t *testing.T) {
		dir := t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		ready, done := make(chan string, 1), make(chan error, 1)
		go func() { // owned: the test waits for it
			done <- node.Run(ctx, node.Config{Data: dir, Listen: "127.0.0.1:0", OnReady: func(url string) { ready <- url }})
		}()
		<-ready
		if _, err := node.Examine(t.Context(), dir); !errors.Is(err, node.ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
