package queue

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

func TestDiskWatermark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	var free atomic.Int64
	free.Store(1 << 30)
	q, err := Open(ctx, path, Options{DiskWatermark: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	setStat := &op{admin: func(r *round) error {
		r.w.disk.stat = func(string) (space, error) { return space{free: free.Load(), total: 1 << 40}, nil }
		r.w.disk.lookedAt = 0
		return nil
	}}
	if err := q.do(ctx, setStat); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-reserve"); err != nil || info.Size() != maxReserve {
		t.Errorf("the reserve: %v, %v", info, err)
	}
	if _, _, err := q.Enqueue(ctx, Spec{Queue: "mail"}, Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	free.Store(1 << 19)
	refused := func() bool {
		_, _, err := q.Enqueue(ctx, Spec{Queue: "mail"})
		return errors.Is(err, ErrDiskFull)
	}
	waitFor(t, refused)
	out, _, err := q.Claim(ctx, ClaimRequest{Queues: []string{"mail"}})
	if err != nil || len(out.Jobs) != 1 {
		t.Fatalf("a claim on a full disk: %d jobs, %v", len(out.Jobs), err)
	}
	if res, _, err := q.Ack(ctx, []Ack{{Lease: out.Jobs[0].Lease}}); err != nil || res[0].Err != nil {
		t.Errorf("an ack on a full disk: %+v, %v", res, err)
	}
	free.Store(1 << 30)
	waitFor(t, func() bool { return !refused() })
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("it does not come true")
}

func TestReserve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q, err := Open(ctx, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, _, err := q.Enqueue(ctx, Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	run := func(f func(*writer)) {
		if err := q.do(ctx, &op{admin: func(r *round) error { f(r.w); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	size := func() int64 {
		info, err := os.Stat(path + "-reserve")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	whole := size()
	run(func(w *writer) {
		for want := whole / 2; w.disk.spend(); want /= 2 {
			if want < minReserve {
				want = 0
			}
			if got := size(); got != want {
				t.Errorf("the reserve has %d bytes, want %d: it is given up by halves", got, want)
			}
		}
	})
	if got := size(); got != 0 {
		t.Errorf("the reserve was not given up: %d bytes", got)
	}
	if _, _, err := q.Enqueue(ctx, Spec{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	if got := size(); got != whole {
		t.Errorf("the reserve has %d of %d bytes when the disk has room again", got, whole)
	}
}

// TestPoison: an operation that cannot succeed fails alone, not its round.
func TestPoison(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.db")
	q, err := Open(ctx, path, Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	hold := make(chan struct{})
	first := &op{done: make(chan struct{}), admin: func(*round) error { <-hold; return nil }}
	good := &op{done: make(chan struct{}), rows: mustRows(t, Spec{Queue: "mail", IdempotencyKey: "a"})}
	poison := &op{done: make(chan struct{}), admin: func(r *round) error {
		if err := r.begin(); err != nil {
			return err
		}
		_, err := r.w.conn.ExecContext(ctx, "insert into nothing values (1)")
		return err
	}}
	more := &op{done: make(chan struct{}), rows: mustRows(t, Spec{Queue: "fresh", Type: "fresh"})}
	for _, o := range []*op{first, good, poison, more} { // the last three share a round
		if err := q.send(o); err != nil {
			t.Fatal(err)
		}
	}
	close(hold)
	for _, o := range []*op{good, poison, more} {
		<-o.done
		if (o.err != nil) != (o == poison) {
			t.Errorf("got error %v", o.err)
		}
	}
	info, err := q.Queues(ctx)
	if err != nil || len(info) != 2 || info[0].Counts.Queued != 1 || info[1].Counts.Queued != 1 {
		t.Errorf("queues %+v, %v", info, err)
	}
}

func mustRows(t *testing.T, s Spec) []*row {
	t.Helper()
	r, err := newRow(&s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return []*row{r}
}

func TestDiskBurst(t *testing.T) {
	free := int64(100 << 20)
	looks := 0
	d := &disk{
		watermark: 10 << 20, size: 1, held: 1, log: slog.New(slog.DiscardHandler),
		stat: func(string) (space, error) { looks++; return space{free: free, total: 1 << 40}, nil },
	}
	if d.full(1000) || looks != 1 {
		t.Fatalf("full at first, or %d looks", looks)
	}
	d.writing(1 << 20)
	if d.full(1001) || looks != 1 {
		t.Errorf("a small write made it look again: %d looks", looks)
	}
	free = 5 << 20
	d.writing(30 << 20)
	if !d.full(1002) || looks != 2 {
		t.Errorf("a burst that may have filled the disk was not followed by a look: %d looks", looks)
	}
}

func TestDiskReserveThatCannotBeFilled(t *testing.T) {
	d := &disk{
		watermark: 1 << 20, size: 1 << 20, reserve: t.TempDir() + "/missing/reserve", log: slog.New(slog.DiscardHandler),
		stat: func(string) (space, error) { return space{free: 1 << 30, total: 1 << 40}, nil },
	}
	if d.full(1000) {
		t.Error("new jobs are refused on a disk with room, for want of a reserve")
	}
}

func TestDiskGone(t *testing.T) {
	d := &disk{
		watermark: 1 << 20, log: slog.New(slog.DiscardHandler),
		stat: func(string) (space, error) { return space{}, os.ErrNotExist },
	}
	if !d.full(1000) {
		t.Error("new jobs are taken although the directory is gone")
	}
}
