package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/tests/s3server"
)

// bucketOf returns the settings of a root in a server's bucket.
func bucketOf(srv *s3server.Server) Replica {
	return Replica{
		Type: "s3", Path: "root", Bucket: srv.Bucket, Endpoint: srv.URL, Region: s3server.Region,
		AccessKeyID: s3server.AccessKeyID, SecretAccessKey: s3server.SecretAccessKey,
	}
}

// openRoot opens a root until the end of the test.
func openRoot(t *testing.T, r Replica) store {
	t.Helper()
	s, err := openStore(t.Context(), r, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openS3 runs a server and opens a root in it.
func openS3(t *testing.T) (*s3server.Server, *s3Store) {
	t.Helper()
	srv := s3server.Start(t)
	return srv, openRoot(t, bucketOf(srv)).(*s3Store)
}

// eachStore runs a test on a folder and on a bucket.
func eachStore(t *testing.T, test func(t *testing.T, s store)) {
	t.Run("folder", func(t *testing.T) { test(t, openRoot(t, Replica{Type: "file", Path: t.TempDir()})) })
	t.Run("bucket", func(t *testing.T) {
		_, s := openS3(t)
		test(t, s)
	})
}

// mustPut puts and returns the version.
func mustPut(t *testing.T, s store, key, data string, cond condition) string {
	t.Helper()
	version, err := s.put(t.Context(), key, []byte(data), cond)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func TestStore(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		ctx := t.Context()
		t.Run("what was put is read back with the same version", func(t *testing.T) {
			version := mustPut(t, s, "a.json", "one", condition{})
			got, err := s.get(ctx, "a.json")
			if err != nil || string(got.data) != "one" || got.version != version || version == "" {
				t.Errorf("got %q %q, %v; put gave %q", got.data, got.version, err, version)
			}
		})
		t.Run("what is not there is no object", func(t *testing.T) {
			_, err := s.get(ctx, "nothing.json")
			wantErr(t, err, errNoObject)
		})
		t.Run("a second first put is refused", func(t *testing.T) {
			mustPut(t, s, "b.json", "one", condition{absent: true})
			_, err := s.put(ctx, "b.json", []byte("two"), condition{absent: true})
			wantErr(t, err, errCondition)
			if got, err := s.get(ctx, "b.json"); err != nil || string(got.data) != "one" {
				t.Errorf("got %q, %v", got.data, err)
			}
		})
		t.Run("a version holds until the next put", func(t *testing.T) {
			first := mustPut(t, s, "c.json", "one", condition{})
			mustPut(t, s, "c.json", "two", condition{version: first})
			_, err := s.put(ctx, "c.json", []byte("three"), condition{version: first})
			wantErr(t, err, errCondition)
		})
		t.Run("no version matches what is not there", func(t *testing.T) {
			_, err := s.put(ctx, "d.json", []byte("one"), condition{version: `"0123456789abcdef0123456789abcdef"`})
			wantErr(t, err, errCondition)
		})
		t.Run("removed is gone, and removed twice no error", func(t *testing.T) {
			mustPut(t, s, "e.json", "one", condition{})
			for range 2 {
				if err := s.remove(ctx, "e.json"); err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.get(ctx, "e.json")
			wantErr(t, err, errNoObject)
		})
		t.Run("of those who swap at once one wins", func(t *testing.T) {
			version := mustPut(t, s, "f.json", "start", condition{})
			if won := winners(t, s, "f.json", condition{version: version}); won != 1 {
				t.Errorf("%d won", won)
			}
		})
		t.Run("a canceled context is returned as such", func(t *testing.T) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := s.get(ctx, "a.json")
			wantErr(t, err, context.Canceled)
		})
		t.Run("the self-test passes and leaves nothing behind", func(t *testing.T) {
			before := keysIn(t, s, "")
			if err := selfTest(ctx, s); err != nil {
				t.Fatal(err)
			}
			if after := keysIn(t, s, ""); !slices.Equal(before, after) {
				t.Errorf("before %q, after %q", before, after)
			}
		})
	})
}

// winners returns how many of several puts at once were taken.
func winners(t *testing.T, s store, key string, cond condition) int {
	t.Helper()
	var (
		mu  sync.Mutex
		won int
		all sync.WaitGroup
	)
	for i := range 8 {
		all.Go(func() {
			_, err := s.put(t.Context(), key, fmt.Appendf(nil, "racer %d", i), cond)
			if err != nil && !errors.Is(err, errCondition) {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			}
		})
	}
	all.Wait()
	return won
}

// keysIn lists keys.
func keysIn(t *testing.T, s store, prefix string) []string {
	t.Helper()
	entries, err := s.list(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range entries {
		keys = append(keys, e.key)
	}
	return keys
}

func TestStoreList(t *testing.T) {
	eachStore(t, func(t *testing.T, s store) {
		for _, key := range []string{"lock.json", "e00000001/epoch.json", "e00000001/0000/b.ltx", "e00000001/0000/a.ltx", "e00000010/epoch.json"} {
			mustPut(t, s, key, "12345", condition{})
		}
		tests := []struct {
			outcome, prefix, want string
		}{
			{"all of the root, in order", "", "e00000001/0000/a.ltx e00000001/0000/b.ltx e00000001/epoch.json e00000010/epoch.json lock.json"},
			{"a folder", "e00000001/", "e00000001/0000/a.ltx e00000001/0000/b.ltx e00000001/epoch.json"},
			{"the beginning of a name", "e000000", "e00000001/0000/a.ltx e00000001/0000/b.ltx e00000001/epoch.json e00000010/epoch.json"},
			{"the beginning of a name in a folder", "e00000001/0000/a", "e00000001/0000/a.ltx"},
			{"nothing in a folder that is not there", "e00000002/", ""},
		}
		for _, tt := range tests {
			t.Run(tt.outcome, func(t *testing.T) {
				if got := strings.Join(keysIn(t, s, tt.prefix), " "); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
			})
		}
		t.Run("sizes are in bytes", func(t *testing.T) {
			if got, err := s.list(t.Context(), "lock.json"); err != nil || len(got) != 1 || got[0].size != 5 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	})
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "replica")
	s := openRoot(t, Replica{Type: "file", Path: dir})
	logger := slog.New(slog.DiscardHandler)

	t.Run("a second process is refused", func(t *testing.T) {
		_, err := openStore(t.Context(), Replica{Type: "file", Path: dir}, logger)
		wantErr(t, err, ErrRootLocked)
	})
	t.Run("one that reads gets in and cannot write", func(t *testing.T) {
		mustPut(t, s, "lock.json", "{}", condition{})
		r, err := openStoreToRead(t.Context(), Replica{Type: "file", Path: dir}, logger)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.get(t.Context(), "lock.json"); err != nil || string(got.data) != "{}" {
			t.Errorf("got %q, %v", got.data, err)
		}
		_, err = r.put(t.Context(), "lock.json", nil, condition{})
		wantErr(t, err, errReadOnly)
		wantErr(t, r.remove(t.Context(), "lock.json"), errReadOnly)
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a key that leads out is refused", func(t *testing.T) {
		for _, key := range []string{"../x", "/x", "a/../../x", ""} {
			if _, err := s.put(t.Context(), key, nil, condition{}); err == nil {
				t.Errorf("%q was taken", key)
			}
		}
	})
	t.Run("its lock and what is unfinished are not listed", func(t *testing.T) {
		for _, name := range []string{".tmp-ABC", "0001.ltx.tmp"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := keysIn(t, s, ""); !slices.Equal(got, []string{"lock.json"}) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("closed it is free for the next", func(t *testing.T) {
		dir := t.TempDir()
		for range 2 {
			s, err := openStore(t.Context(), Replica{Type: "file", Path: dir}, logger)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestOpenStoreUnknownType(t *testing.T) {
	if _, err := openStore(t.Context(), Replica{Type: "sftp"}, slog.Default()); err == nil {
		t.Error("it was taken")
	}
}
