package replicate

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/superfly/ltx"

	"holdfast/tests/s3server"
)

func TestGuardFence(t *testing.T) {
	errLost := errors.New("lost")
	calls, losesAt := 0, 0
	srv, _, g := guarded(t, func(o *guardOptions) {
		o.check = func() error {
			if calls++; losesAt != 0 && calls >= losesAt {
				return errLost
			}
			return nil
		}
	})
	small, large := ltxFile(t, 1, 5000, 'a'), ltxFile(t, 1, maxFirst+1, 'a')
	acts := []struct {
		what string
		do   func() error
	}{
		{"a commit", func() error { return put(t, g, 0, 1, bytes.NewReader(small)) }},
		{"a base", func() error { return put(t, g, 0, 2, bytes.NewReader(large)) }},
		{"a compacted file", func() error { return put(t, g, 1, 1, bytes.NewReader(small)) }},
		{"a delete", func() error { return g.DeleteLTXFiles(t.Context(), []*ltx.FileInfo{{MinTXID: 1, MaxTXID: 1}}) }},
	}
	for _, act := range acts {
		t.Run("one who lost its place does not send "+act.what, func(t *testing.T) {
			srv.Forget()
			calls, losesAt = 0, 1
			wantErr(t, act.do(), errLost)
			if n := len(srv.Requests()); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
		t.Run("one who lost it meanwhile is told after "+act.what, func(t *testing.T) {
			srv.Forget()
			calls, losesAt = 0, 2
			wantErr(t, act.do(), errLost)
			if len(srv.Requests()) == 0 {
				t.Error("nothing was sent")
			}
		})
	}
	t.Run("reads need no place", func(t *testing.T) {
		losesAt = 1
		if _, err := fetched(t, g, 1, 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("nobody deletes a whole prefix", func(t *testing.T) {
		losesAt = 0
		wantErr(t, g.DeleteAll(t.Context()), errDeleteAll)
	})
}

func TestGuardDeletes(t *testing.T) {
	srv, _, g := guarded(t, func(o *guardOptions) { o.call = 20 * time.Second })
	var files []*ltx.FileInfo
	for txid := ltx.TXID(1); txid <= 1001; txid++ {
		files = append(files, &ltx.FileInfo{MinTXID: txid, MaxTXID: txid})
		mustPutFile(t, srv.Dir, "root/e00000001/0000/"+ltx.FormatFilename(txid, txid))
	}
	if err := g.DeleteLTXFiles(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	if n := srv.Count(s3server.Delete, ""); n != 2 {
		t.Errorf("%d requests", n)
	}
	left, err := filepath.Glob(filepath.Join(srv.Dir, "root/e00000001/0000/*"))
	if err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	t.Run("a key that may not delete", func(t *testing.T) {
		const body = `<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error></DeleteResult>`
		defer srv.Inject(s3server.Fault{Op: s3server.Delete, Do: s3server.Answer, Status: 200, Body: body})()
		wantKind(t, g.DeleteLTXFiles(t.Context(), files[:1]), RemoteForbidden)
	})
}
