package replicate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superfly/ltx"
)

var (
	errKilled = errors.New("killed")
	errSame   = errors.New("the same pages")
)

// killAt makes the follower end at the n-th thing that it writes; it returns
// whether it came to that.
func killAt(f *Follower, n int) (killed func() bool) {
	count := 0
	f.step = func(string) error {
		if count++; count > n {
			return errKilled
		}
		return nil
	}
	return func() bool { return count > n }
}

// crash lets go of a follower without a word, as the end of its process does.
func crash(t *testing.T, f *Follower) {
	t.Helper()
	if f.front != nil {
		if err := f.front.db.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := f.lock.Close(); err != nil {
		t.Error(err)
	}
}

// TestFollowKilled ends a follower at each thing that it writes. What is served
// from then on is one of the states that there were, also before the root is
// asked, and it goes on to the newest.
func TestFollowKilled(t *testing.T) {
	for name, seeded := range map[string]bool{"while it makes its first copy": false, "while it goes on": true} {
		t.Run(name, func(t *testing.T) {
			r := Replica{Type: "file", Path: filepath.Join(t.TempDir(), "replica")}
			opts := newRoot(t, r)
			a := mustBoot(t, opts)
			dir := t.TempDir()
			n := 0
			for killed := true; killed; n++ {
				if !seeded {
					dir = t.TempDir()
				}
				before := a.items()
				if seeded || n == 0 { // else there would be more to write each time
					a.add(strings.Repeat("x", 3000+n)) // several pages
					a.add("y")
					a.synced()
				}
				killed = killOnce(t, followOptions(dir, r), n)
				served(t, followOptions(dir, r), before, a.items(), seeded && n > 0)
			}
			if n < 8 {
				t.Errorf("killed at %d things", n)
			}
			t.Logf("killed at each of %d things", n)
			a.stop()
		})
	}
}

// killOnce follows until it is killed at the n-th thing, or until it has all.
func killOnce(t *testing.T, o FollowOptions, n int) bool {
	t.Helper()
	f, err := OpenFollower(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer crash(t, f)
	killed := killAt(f, n)
	if err := f.catchUp(ctx); err != nil && !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	return killed()
}

// served opens a follower after another was killed.
func served(t *testing.T, o FollowOptions, before, after string, must bool) {
	t.Helper()
	f, err := OpenFollower(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}()
	look := func(allowed ...string) {
		v, err := f.Acquire()
		if errors.Is(err, ErrNoCopy) && len(allowed) > 1 && !must {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer v.Release()
		got := itemsOf(t, v.DB)
		ok := false
		for _, want := range allowed {
			ok = ok || got == want
		}
		var check string
		if err := v.DB.QueryRow("pragma integrity_check").Scan(&check); err != nil || check != "ok" || !ok {
			t.Errorf("%d bytes of items, %s, %v", len(got), check, err)
		}
	}
	// In between there may be an upload of the first of two commits alone.
	look(before, strings.TrimSuffix(after, "y "), after)
	if err := f.catchUp(ctx); err != nil {
		t.Fatal(err)
	}
	look(after)
}

// TestFetchedFile breaks a file in every way that one byte can be wrong, or its
// end be missing.
func TestFetchedFile(t *testing.T) {
	r := Replica{Type: "file", Path: filepath.Join(t.TempDir(), "replica")}
	opts := newRoot(t, r)
	a := mustBoot(t, opts)
	a.add("one")
	a.synced()
	txid := ltx.TXID(a.p.Status().TXID)
	a.stop()
	for _, id := range []ltx.TXID{1, txid} {
		data := read(t, filepath.Join(r.Path, prefixOf(1), "ltx", "0", ltx.FormatFilename(id, id)))
		want := ""
		// A wrong byte in a compressed page may stand for the same page.
		verify := func(data []byte) error {
			f := &fetchedFile{info: &ltx.FileInfo{MinTXID: id, MaxTXID: id}, held: data, size: int64(len(data))}
			if err := f.verify(); err != nil {
				return err
			}
			sum := sha256.New()
			err := f.pages(func(pgno uint32, data []byte) error {
				fmt.Fprintln(sum, pgno, f.header.Commit)
				sum.Write(data)
				return nil
			})
			if got := string(sum.Sum(nil)); want == "" {
				want = got
			} else if got == want {
				return errors.Join(err, errSame)
			}
			return err
		}
		if err := verify(data); err != nil {
			t.Fatal(err)
		}
		for n := range data {
			if err := verify(data[:n]); err == nil || errors.Is(err, errSame) {
				t.Errorf("%d of %d bytes pass", n, len(data))
			}
		}
		for n := range data {
			for _, bit := range []byte{1, 0x80} {
				bad := append([]byte(nil), data...)
				bad[n] ^= bit
				if verify(bad) == nil {
					t.Errorf("byte %d of %d may be wrong", n, len(data))
				}
			}
		}
		if err := verify(append(append([]byte(nil), data...), 0)); err == nil || errors.Is(err, errSame) {
			t.Error("a byte too many passes")
		}
		f := &fetchedFile{info: &ltx.FileInfo{MinTXID: id, MaxTXID: id + 1}, held: data, size: int64(len(data))}
		if f.verify() == nil {
			t.Error("a file under another name passes")
		}
	}
}
