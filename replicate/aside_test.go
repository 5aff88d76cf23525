package replicate

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAsideIsBounded: nodes that hand the root to each other do not fill their
// disks with what they set aside, and lose nothing that is not in the replica.
func TestAsideIsBounded(t *testing.T) {
	r := Replica{Type: TypeFile, Path: t.TempDir()}
	opts := appOptions(t.TempDir(), "a", r)
	other := appOptions(t.TempDir(), "b", r)
	aside := func() int {
		found, _ := filepath.Glob(filepath.Join(opts.Dir, asideName, "*", "app.db"))
		return len(found)
	}
	initRoot(t, opts)
	takeTurns := func(n int) {
		for range n {
			for _, o := range []Options{opts, other} {
				a := mustBoot(t, o)
				a.add("one")
				a.synced()
				a.stop()
			}
		}
	}
	takeTurns(asideKept + 3)
	if n := aside(); n != asideKept {
		t.Errorf("%d copies were kept, want %d", n, asideKept)
	}
	// A node that did not upload its last commit, and comes back too late.
	a := mustBoot(t, opts)
	a.synced()
	a.p.letGo()
	a.add("lost")
	a.kill() //nolint:errcheck // it did not upload everything
	if _, err := TakeOver(ctx, r, other.Logger); err != nil {
		t.Fatal(err)
	}
	mustBoot(t, other).stop()
	takeTurns(asideKept + 3)
	if n := aside(); n != asideKept+1 {
		t.Errorf("%d copies were kept, want %d and the one with a commit that is nowhere else", n, asideKept)
	}
}

// TestTornPosition: a loss of power may leave position.json empty, which says as
// little as none.
func TestTornPosition(t *testing.T) {
	opts := appOptions(t.TempDir(), "a", Replica{Type: TypeFile, Path: t.TempDir()})
	initRoot(t, opts)
	a := mustBoot(t, opts)
	a.add("one")
	a.synced()
	for _, text := range []string{"", "\x00\x00\x00\x00", "[]"} {
		if err := a.kill(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(opts.Dir, positionsName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a = mustBoot(t, opts)
		wantItems(t, a, "one ")
	}
	a.stop()
}
