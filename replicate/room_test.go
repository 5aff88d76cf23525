package replicate

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestGiveWay(t *testing.T) {
	backends(t, func(t *testing.T, r Replica) {
		opts := newRoot(t, r)
		a := mustBoot(t, opts)
		a.add("one")
		a.synced()
		if err := a.emptyWAL(); err == nil {
			t.Error("the application could empty the WAL of a stream that had not given way")
		}
		for _, text := range []string{"two", "three"} {
			a.p.GiveWay()
			a.p.GiveWay() // again does no harm
			if err := a.emptyWAL(); err != nil {
				t.Errorf("after it gave way: %v", err)
			}
			a.add(text)
			a.synced() // it came back, for there is room
		}
		a.stop()
		a = mustBoot(t, opts)
		wantEpoch(t, a, 1)
		wantItems(t, a, "one two three ")
		a.p.GiveWay()
		a.add("four")
		a.stop()
		out := filepath.Join(t.TempDir(), "restored.db")
		if _, err := Restore(ctx, RestoreOptions{Replica: r, Output: out, Logger: opts.Logger, Full: true}); err != nil {
			t.Fatal(err)
		}
		if s, err := inspectApp(ctx, out); err != nil || s.Seq != 4 {
			t.Errorf("restored %+v, %v", s, err)
		}
	})
}

// emptyWAL is the application's own checkpoint.
func (a *app) emptyWAL() error {
	var busy, frames, moved int
	if _, err := a.db.Exec("pragma busy_timeout = 100"); err != nil {
		return err
	}
	err := a.db.QueryRow("pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &moved)
	if err == nil && busy != 0 {
		err = errors.New("somebody reads the WAL")
	}
	return err
}
