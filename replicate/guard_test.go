package replicate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"

	"holdfast/tests/s3server"
)

// ltxCreated is in the header of each file of ltxFile.
var ltxCreated = time.UnixMilli(1_700_000_000_123).UTC()

// ltxFile returns a file of a size with a header that Litestream's client reads.
func ltxFile(t *testing.T, txid ltx.TXID, size int, fill byte) []byte {
	t.Helper()
	header := ltx.Header{Version: ltx.Version, PageSize: 4096, Commit: 1, MinTXID: txid, MaxTXID: txid, Timestamp: ltxCreated.UnixMilli()}
	b, err := header.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return append(b, bytes.Repeat([]byte{fill}, size-len(b))...)
}

// guarded returns a guard over a prefix of a server that does everything soon.
func guarded(t *testing.T, change func(*guardOptions)) (*s3server.Server, *s3Store, litestream.ReplicaClient) {
	t.Helper()
	srv, s := openS3(t)
	inner, err := s.client("e00000001")
	if err != nil {
		t.Fatal(err)
	}
	opts := guardOptions{
		once: s, prefix: "e00000001",
		call: 500 * time.Millisecond, stall: 300 * time.Millisecond, answer: 600 * time.Millisecond, stream: 600 * time.Millisecond,
	}
	if change != nil {
		change(&opts)
	}
	return srv, s, newGuard(inner, opts)
}

// put writes a file of level l.
func put(t *testing.T, g litestream.ReplicaClient, l int, txid ltx.TXID, r io.Reader) error {
	t.Helper()
	_, err := g.WriteLTXFile(t.Context(), l, txid, txid, r)
	return err
}

// fetched returns a whole file.
func fetched(t *testing.T, g litestream.ReplicaClient, l int, txid ltx.TXID) ([]byte, error) {
	t.Helper()
	rc, err := g.OpenLTXFile(t.Context(), l, txid, txid, 0, 0)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(rc)
}

// onDisk puts data in a file, as Litestream has a commit.
func onDisk(t *testing.T, data []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.ltx")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// streamed hides what a reader could do but read.
func streamed(data []byte) io.Reader { return io.MultiReader(bytes.NewReader(data)) }

func TestGuardWrites(t *testing.T) {
	srv, s, g := guarded(t, nil)
	const key = "root/e00000001/%04x/%s"
	tests := []struct {
		outcome string
		level   int
		size    int
		stream  bool
		puts    int
	}{
		{"a commit", 0, 5000, false, 1},
		{"a commit that is a stream", 0, 5000, true, 1},
		{"the largest that is put once", 0, maxFirst, false, 1},
		{"a commit that is larger", 0, maxFirst + 1, false, 1},
		{"a stream that is larger", 0, maxFirst + 1, true, 1},
		{"a compacted file", 1, 5000, true, 1},
		{"a base in parts", 0, 11 << 20, false, 5}, // with begin and end
		{"a snapshot in parts", 9, 11 << 20, true, 5},
	}
	for i, tt := range tests {
		t.Run(tt.outcome, func(t *testing.T) {
			srv.Forget()
			txid := ltx.TXID(i + 1)
			data := ltxFile(t, txid, tt.size, 'a')
			var r io.Reader = onDisk(t, data)
			if tt.stream {
				r = streamed(data)
			}
			info, err := g.WriteLTXFile(t.Context(), tt.level, txid, txid, r)
			if err != nil {
				t.Fatal(err)
			}
			want := ltx.FileInfo{Level: tt.level, MinTXID: txid, MaxTXID: txid, Size: int64(tt.size), CreatedAt: ltxCreated}
			if *info != want {
				t.Errorf("got %+v, want %+v", *info, want)
			}
			if n := srv.Count(s3server.Put, fmt.Sprintf(key, tt.level, ltx.FormatFilename(txid, txid))); n != tt.puts {
				t.Errorf("%d puts, want %d", n, tt.puts)
			}
			if got, err := fetched(t, g, tt.level, txid); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read back %d bytes, %v", len(got), err)
			}
			wantListed(t, g, want)
		})
	}
	t.Run("the stock client reads them, their times included", func(t *testing.T) {
		inner, err := s.client("e00000001")
		if err != nil {
			t.Fatal(err)
		}
		wantListed(t, inner, ltx.FileInfo{Level: 0, MinTXID: 1, MaxTXID: 1, Size: 5000, CreatedAt: ltxCreated})
	})
}

// wantListed fails t unless a list with times has the file.
func wantListed(t *testing.T, c litestream.ReplicaClient, want ltx.FileInfo) {
	t.Helper()
	itr, err := c.LTXFiles(t.Context(), want.Level, want.MinTXID, true)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ltx.SliceFileIterator(itr)
	if err != nil || !slices.ContainsFunc(files, func(f *ltx.FileInfo) bool { return *f == want }) {
		t.Errorf("%+v is not in the list, %v", want, err)
	}
}

func TestGuardSecondWriter(t *testing.T) {
	t.Run("the same file again is no error", func(t *testing.T) {
		_, _, g := guarded(t, nil)
		data := ltxFile(t, 1, 5000, 'a')
		for range 2 {
			if err := put(t, g, 0, 1, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("a different file of the same TXID is found out and stays out", func(t *testing.T) {
		_, _, g := guarded(t, nil)
		first := ltxFile(t, 1, 5000, 'a')
		if err := put(t, g, 0, 1, bytes.NewReader(first)); err != nil {
			t.Fatal(err)
		}
		wantErr(t, put(t, g, 0, 1, bytes.NewReader(ltxFile(t, 1, 5000, 'b'))), ErrDiverged)
		if got, err := fetched(t, g, 0, 1); err != nil || !bytes.Equal(got, first) {
			t.Errorf("the first file was changed, %v", err)
		}
	})
	t.Run("a lost answer is made up for", func(t *testing.T) {
		srv, _, g := guarded(t, nil)
		srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.CutAfter, Times: 1})
		if err := put(t, g, 0, 1, bytes.NewReader(ltxFile(t, 1, 5000, 'a'))); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a storm of SlowDown is waited out", func(t *testing.T) {
		srv, _, g := guarded(t, nil)
		srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Answer, Status: 503, Times: 2})
		if err := put(t, g, 0, 1, bytes.NewReader(ltxFile(t, 1, 5000, 'a'))); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a provider without conditions is written to without", func(t *testing.T) {
		srv, _, g := guarded(t, nil)
		srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Answer, Status: 501, Times: 1})
		for txid := ltx.TXID(1); txid <= 2; txid++ {
			data := ltxFile(t, txid, 5000, 'a')
			if err := put(t, g, 0, txid, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			if got, err := fetched(t, g, 0, txid); err != nil || !bytes.Equal(got, data) {
				t.Errorf("read back %d bytes, %v", len(got), err)
			}
		}
	})
	t.Run("what is no file of Litestream's is refused", func(t *testing.T) {
		_, _, g := guarded(t, nil)
		if err := put(t, g, 0, 1, strings.NewReader("no header")); err == nil {
			t.Error("it was taken")
		}
	})
}

func TestGuardReads(t *testing.T) {
	var read int64
	count := new(counter)
	srv, _, g := guarded(t, func(o *guardOptions) {
		o.onBytes = func(n int64) { read += n }
		o.counter = count
	})
	data := ltxFile(t, 1, 5000, 'a')
	if err := put(t, g, 1, 1, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	t.Run("a part is the part that was asked for", func(t *testing.T) {
		rc, err := g.OpenLTXFile(t.Context(), 1, 1, 1, 10, 20)
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		if got, err := io.ReadAll(rc); err != nil || !bytes.Equal(got, data[10:30]) {
			t.Errorf("got %q, %v", got, err)
		}
		if read != 20 {
			t.Errorf("told of %d bytes", read)
		}
	})
	t.Run("what is not there is said as Litestream expects it", func(t *testing.T) {
		if _, err := fetched(t, g, 1, 9); !os.IsNotExist(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file that is cut is an error", func(t *testing.T) {
		defer srv.Inject(s3server.Fault{Op: s3server.Get, Do: s3server.Truncate, Bytes: 100})()
		if got, err := fetched(t, g, 1, 1); err == nil {
			t.Errorf("got %d bytes", len(got))
		}
	})
	t.Run("requests are counted as they are sent", func(t *testing.T) {
		if got, want := count.snapshot(), (Requests{Put: 1, Get: 3}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestGuardFolder(t *testing.T) {
	s := openRoot(t, Replica{Type: "file", Path: t.TempDir()})
	inner, err := s.client("e00000001")
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(inner, guardOptions{once: s, prefix: "e00000001"})
	data := ltxFile(t, 1, 5000, 'a')
	if err := put(t, g, 0, 1, onDisk(t, data)); err != nil {
		t.Fatal(err)
	}
	if got, err := fetched(t, g, 0, 1); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read back %d bytes, %v", len(got), err)
	}
	wantListed(t, g, ltx.FileInfo{MinTXID: 1, MaxTXID: 1, Size: 5000, CreatedAt: ltxCreated})
	if got := keysIn(t, s, ""); !slices.Equal(got, []string{"e00000001/ltx/0/" + ltx.FormatFilename(1, 1)}) {
		t.Errorf("got %q", got)
	}
	if _, err := fetched(t, g, 0, 2); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := g.DeleteLTXFiles(t.Context(), []*ltx.FileInfo{{MinTXID: 1, MaxTXID: 1}}); err != nil {
		t.Error(err)
	}
	wantErr(t, g.DeleteAll(t.Context()), errDeleteAll)
}
