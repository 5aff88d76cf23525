package replicate

import (
	"testing"
	"time"

	"holdfast/tests/s3server"
)

// TestSnapshotAfterAClockThatWasAhead: a snapshot that was taken by a clock which
// has been set back since does not keep the next one from being taken.
func TestSnapshotAfterAClockThatWasAhead(t *testing.T) {
	s, opts := newS3Root(t)
	opts.Config.Snapshot.Interval, opts.Config.Snapshot.Retention = 100*time.Millisecond, time.Hour
	snapshots := func() int { return s.Count(s3server.Put, "root/e00000001/0009/") }
	more := func(a *app, than int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); snapshots() <= than; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no snapshot beyond the first %d", than)
			}
			a.add("item")
		}
	}
	a := mustBoot(t, opts)
	more(a, 0)
	a.stop()
	opts.Now = func() time.Time { return time.Now().Add(-48 * time.Hour) }
	a = mustBoot(t, opts)
	more(a, snapshots())
	a.stop()
}
