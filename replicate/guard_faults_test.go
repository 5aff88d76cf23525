package replicate

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superfly/ltx"

	"holdfast/tests/s3server"
)

func TestGuardBlackHoles(t *testing.T) {
	srv, s, g := guarded(t, nil)
	s.timeout = 300 * time.Millisecond
	small, base := ltxFile(t, 1, 5000, 'a'), ltxFile(t, 1, 12<<20, 'a')
	if err := put(t, g, 1, 1, bytes.NewReader(base)); err != nil {
		t.Fatal(err)
	}
	hang := s3server.Fault{Do: s3server.BlackHole}
	tests := []struct {
		outcome string
		fault   s3server.Fault
		do      func() error
	}{
		{"a commit", hang, func() error { return put(t, g, 0, 2, bytes.NewReader(small)) }},
		{"a compacted file", hang, func() error { return put(t, g, 1, 2, streamed(small)) }},
		{"a base", hang, func() error { return put(t, g, 0, 2, onDisk(t, base)) }},
		{"a base that nobody reads", s3server.Fault{Op: s3server.Put, Part: "0000/", After: 1, Do: s3server.BlackHoleBody}, func() error { return put(t, g, 0, 2, onDisk(t, base)) }},
		{"a snapshot", hang, func() error { return put(t, g, 9, 2, streamed(base)) }},
		{"the end of a base", s3server.Fault{Op: s3server.Put, After: 4, Do: s3server.BlackHole}, func() error { return put(t, g, 0, 2, onDisk(t, base)) }},
		{"an open", hang, func() error { _, err := fetched(t, g, 1, 1); return err }},
		{"a body", s3server.Fault{Op: s3server.Get, Do: s3server.Hang, Bytes: 1 << 20}, func() error { _, err := fetched(t, g, 1, 1); return err }},
		{"a list", hang, func() error {
			itr, err := g.LTXFiles(t.Context(), 1, 0, false)
			if err != nil {
				return err
			}
			_, err = ltx.SliceFileIterator(itr)
			return err
		}},
		{"the times of a list", s3server.Fault{Op: s3server.Get, Do: s3server.BlackHole}, func() error {
			itr, err := g.LTXFiles(t.Context(), 1, 0, true)
			if err != nil {
				return err
			}
			_, err = ltx.SliceFileIterator(itr)
			return err
		}},
		{"a delete", hang, func() error { return g.DeleteLTXFiles(t.Context(), []*ltx.FileInfo{{MinTXID: 1, MaxTXID: 1}}) }},
	}
	before := runtime.NumGoroutine()
	for _, tt := range tests {
		t.Run(tt.outcome+" times out", func(t *testing.T) {
			defer srv.Inject(tt.fault)()
			began := time.Now()
			wantKind(t, tt.do(), RemoteTimeout)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Run("and leaves no goroutine behind", func(t *testing.T) {
		const idle = 40 // connections that both ends keep for the next request
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() > before+idle {
			if time.Now().After(deadline) {
				t.Fatalf("%d before, %d now", before, runtime.NumGoroutine())
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func TestGuardPatience(t *testing.T) {
	srv, _, g := guarded(t, nil)
	data := ltxFile(t, 1, 5000, 'a')
	if err := put(t, g, 1, 1, bytes.NewReader(ltxFile(t, 1, 12<<20, 'a'))); err != nil {
		t.Fatal(err)
	}
	t.Run("a body that comes slowly but comes", func(t *testing.T) {
		if err := put(t, g, 1, 2, &slow{data: data, piece: 500, pause: 100 * time.Millisecond}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a body that stops", func(t *testing.T) {
		wantKind(t, put(t, g, 1, 3, &slow{data: data, piece: 500, pause: 700 * time.Millisecond}), RemoteTimeout)
	})
	t.Run("an answer that takes longer than a byte may", func(t *testing.T) {
		defer srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Wait, Delay: 450 * time.Millisecond})()
		if err := put(t, g, 1, 4, bytes.NewReader(data)); err != nil {
			t.Error(err)
		}
	})
	t.Run("one who takes its time between two reads", func(t *testing.T) {
		rc, err := g.OpenLTXFile(t.Context(), 1, 1, 1, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		if _, err := io.CopyN(io.Discard, rc, 1000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if n, err := io.Copy(io.Discard, rc); err != nil || n != 12<<20-1000 {
			t.Errorf("read %d, %v", n, err)
		}
	})
}

// slow is a body that pauses before each piece.
type slow struct {
	data  []byte
	piece int
	pause time.Duration
}

// Read returns the next piece.
func (s *slow) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.pause)
	n := copy(p, s.data[:min(s.piece, len(s.data))])
	s.data = s.data[n:]
	return n, nil
}

func TestGuardNamesThePlace(t *testing.T) {
	srv, s, _ := guarded(t, nil)
	inner, err := s.client("e00000001")
	if err != nil {
		t.Fatal(err)
	}
	srv.Inject(s3server.Fault{Do: s3server.Answer, Status: 403})
	_, err = fetched(t, newGuard(inner, guardOptions{}), 0, 1)
	wantKind(t, err, RemoteForbidden)
	if want := "s3://bucket/root/e00000001?endpoint=" + srv.URL; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %s in it", err, want)
	}
}
