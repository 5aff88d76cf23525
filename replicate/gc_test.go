package replicate

import (
	"slices"
	"testing"
	"time"
)

func TestUnneeded(t *testing.T) {
	now := time.Now()
	old, young := now.Add(-100*time.Hour), now.Add(-time.Hour)
	epochs := func(n ...int64) map[int64][]entry {
		m := map[int64][]entry{}
		for _, e := range n {
			m[e] = nil
		}
		return m
	}
	for name, c := range map[string]struct {
		byEpoch map[int64][]entry
		readyAt map[int64]time.Time
		ready   int64
		want    []int64
	}{
		"the newest two stay whatever their age":             {epochs(1, 2), map[int64]time.Time{1: old, 2: old}, 2, nil},
		"one that was replaced long ago goes":                {epochs(1, 2, 3), map[int64]time.Time{1: old, 2: old, 3: old}, 3, []int64{1}},
		"one that was replaced lately stays":                 {epochs(1, 2, 3), map[int64]time.Time{1: old, 2: young, 3: young}, 3, nil},
		"one that never was ready goes with its time":        {epochs(1, 2, 3, 4), map[int64]time.Time{1: old, 3: old, 4: old}, 4, []int64{1, 2}},
		"one that is about to become ready stays":            {epochs(1, 2, 3), map[int64]time.Time{1: old, 2: old}, 2, nil},
		"one that wrote epoch.json and was not declared yet": {epochs(1, 2, 3), map[int64]time.Time{1: old, 2: old, 3: old}, 2, nil},
		"an empty root": {epochs(), nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unneeded(c.byEpoch, c.readyAt, c.ready, now.Add(-72*time.Hour)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestCollect(t *testing.T) {
	backends(t, func(t *testing.T, r Replica) {
		opts := newRoot(t, r)
		for _, text := range []string{"one", "two", "three", "four"} { // each in an epoch of its own
			a := mustBoot(t, opts)
			a.add(text)
			a.stop()
			opts = appOptions(t.TempDir(), "a", r)
		}
		c := opts.Config
		c.Snapshot.Retention = 0
		s, err := openStore(ctx, r, opts.Logger)
		if err != nil {
			t.Fatal(err)
		}
		would, err := collect(ctx, s, time.Now().Add(time.Second), true)
		if err != nil || len(would) != 2 || would[0].Epoch != 1 || would[0].Files < 2 || would[0].Bytes == 0 {
			t.Errorf("would delete %+v, %v", would, err)
		}
		if did, err := collect(ctx, s, time.Now().Add(time.Second), false); err != nil || !slices.Equal(did, would) {
			t.Errorf("deleted %+v, %v", did, err)
		}
		s.close()
		_, left, err := List(ctx, r, opts.Logger)
		if err != nil || len(left) != 2 || left[0].Epoch != 4 {
			t.Errorf("left are %+v, %v", left, err)
		}
		a := mustBoot(t, opts)
		wantItems(t, a, "one two three four ")
		a.stop()
	})
}
