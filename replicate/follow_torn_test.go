package replicate

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/tests/s3server"
)

// tornAnswers is how many answers TestFollowIsNeverTorn asks for at least;
// HOLDFAST_TORN_ANSWERS=100000 makes it the long run.
const tornAnswers = 3000

// ledger writes transactions over several rows of two tables: some only update,
// so that the sum stays 0, and some only insert, the same number into each.
type ledger struct {
	a    *app
	rows int
}

func newLedger(t *testing.T, a *app) *ledger {
	t.Helper()
	l := &ledger{a: a, rows: 150}
	l.do(t, func(tx *sql.Tx) error {
		for _, stmt := range []string{
			"create table if not exists left(id integer primary key, v int, pad text)", "create table if not exists right(id integer primary key, v int, pad text)",
			"create table if not exists in1(id integer primary key, pad text)", "create table if not exists in2(id integer primary key, pad text)",
			"with recursive n(i) as (select 1 union all select i + 1 from n where i < " + strconv.Itoa(l.rows) + ") insert or ignore into left select i, 0, hex(randomblob(200)) from n",
			"insert or ignore into right select id, v, pad from left",
		} {
			if _, err := tx.Exec(stmt); err != nil {
				return fmt.Errorf("%s: %w", stmt, err)
			}
		}
		return nil
	})
	return l
}

func (l *ledger) do(t *testing.T, f func(tx *sql.Tx) error) {
	t.Helper()
	tx, err := l.a.db.Begin()
	if err == nil {
		err = f(tx)
	}
	if err == nil {
		_, err = tx.Exec("update app set seq = seq + 1")
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	l.a.last.Add(1)
	l.a.p.Notify()
}

// write makes one transaction.
func (l *ledger) write(t *testing.T, n int) {
	l.do(t, func(tx *sql.Tx) error {
		if n%2 == 0 {
			for range 10 {
				by := rand.IntN(1000)
				if _, err := tx.Exec("update left set v = v + ? where id = ?", by, 1+rand.IntN(l.rows)); err != nil {
					return err
				}
				if _, err := tx.Exec("update right set v = v - ? where id = ?", by, 1+rand.IntN(l.rows)); err != nil {
					return err
				}
			}
			return nil
		}
		for range 5 {
			if _, err := tx.Exec("insert into in1(pad) values (hex(randomblob(150)))"); err != nil {
				return err
			}
			if _, err := tx.Exec("insert into in2(pad) values (hex(randomblob(400)))"); err != nil {
				return err
			}
		}
		if n%101 == 0 { // the file becomes smaller
			_, err := tx.Exec("delete from in1")
			if err == nil {
				_, err = tx.Exec("delete from in2")
			}
			return err
		}
		return nil
	})
}

// balance is what must hold in every state. It pauses between its queries: a
// view stays what it is.
func balance(db *sql.DB, p Position, pause func()) error {
	var left, right, in1, in2, lo1, lo2, hi1, hi2 int64
	pause()
	err := db.QueryRow("select coalesce(sum(v), 0), count(*) from left").Scan(&left, &lo1)
	pause()
	if err == nil {
		err = db.QueryRow("select coalesce(sum(v), 0), count(*) from right").Scan(&right, &lo2)
	}
	pause()
	if err == nil {
		err = db.QueryRow("select count(*), coalesce(max(id), 0) from in1").Scan(&in1, &hi1)
	}
	pause()
	if err == nil {
		err = db.QueryRow("select count(*), coalesce(max(id), 0) from in2").Scan(&in2, &hi2)
	}
	var seq, epoch int64
	if err == nil {
		err = db.QueryRow("select seq, epoch from app").Scan(&seq, &epoch)
	}
	if err != nil {
		return err
	}
	if left+right != 0 || lo1 != lo2 || in1 != in2 || hi1 != hi2 || seq != p.Seq || epoch != p.Epoch {
		return fmt.Errorf("torn: sums %d and %d of %d and %d rows, %d and %d inserted up to %d and %d, seq %d and epoch %d at %+v",
			left, right, lo1, lo2, in1, in2, hi1, hi2, seq, epoch, p)
	}
	return nil
}

// TestFollowIsNeverTorn asks without a pause while transactions are written,
// files are compacted and deleted, the bucket fails in the middle of files, and
// the root changes hands.
func TestFollowIsNeverTorn(t *testing.T) {
	want := int64(tornAnswers)
	if n, err := strconv.ParseInt(os.Getenv("HOLDFAST_TORN_ANSWERS"), 10, 64); err == nil {
		want = n
	}
	s := s3server.Start(t)
	mine := s.Another(t)
	options := func(node string) Options {
		opts := appOptions(t.TempDir(), node, s3Replica(s.Proxy))
		opts.Config.Levels = []time.Duration{200 * time.Millisecond, time.Second}
		opts.Config.L0Retention = 300 * time.Millisecond
		opts.Config.Snapshot.Interval, opts.Config.Snapshot.Retention = time.Second, time.Second
		return opts
	}
	opts := options("a")
	initRoot(t, opts)
	a := mustBoot(t, opts)
	l := newLedger(t, a)
	o := followOptions(t.TempDir(), s3Replica(mine))
	o.Open = func(path string) (*sql.DB, error) { // no page is kept in memory, where it would hide what became of the file
		return sql.Open("sqlite", copyURI(path)+"&_pragma=cache_size(1)")
	}
	f := follow(t, o)
	f.reaches(a)

	for _, fault := range []s3server.Fault{
		{Op: s3server.Get, Part: ".ltx", Do: s3server.Truncate, Bytes: 3000},
		{Op: s3server.Get, Part: ".ltx", Do: s3server.Answer, Status: 503},
		{Op: s3server.List, Do: s3server.CutAfter},
		{Op: s3server.Get, Part: lockKey, Do: s3server.Answer, Status: 500},
		{Op: s3server.Get, Part: ".ltx", Do: s3server.Truncate, Bytes: 120},
	} {
		for after := range 40 {
			fault.After, fault.Times = 5+after*47, 1
			mine.Inject(fault)
		}
	}
	var answers, states atomic.Int64
	stop := make(chan struct{})
	var g errgroup.Group
	for range 2 {
		g.Go(func() error { return ask(f.Follower, stop, &answers, &states) })
	}
	for epoch := int64(1); epoch <= 3; epoch++ {
		for n := 1; answers.Load() < want*epoch/3 || states.Load() < 10*epoch || n < 101; n++ {
			l.write(t, n)
			time.Sleep(10 * time.Millisecond)
		}
		if epoch == 3 || t.Failed() {
			break
		}
		a.stop()
		a = mustBoot(t, options("b"+strconv.FormatInt(epoch, 10)))
		l.a = a
	}
	f.reaches(a)
	close(stop)
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	a.stop()
	t.Logf("%d answers of %d states, %d requests at the bucket", answers.Load(), states.Load(), mine.Count("", ""))
	if answers.Load() < want || states.Load() < 20 {
		t.Errorf("%d answers of %d states say nothing", answers.Load(), states.Load())
	}
}

// ask asks until it is stopped, and counts the answers and the states that it
// saw first. A position never goes back.
func ask(f *Follower, stop chan struct{}, answers, states *atomic.Int64) error {
	var last Position
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		v, err := f.Acquire()
		if err != nil {
			return err
		}
		p := v.Position
		pause := func() {}
		if rand.IntN(50) == 0 {
			pause = func() { time.Sleep(rand.N(20 * time.Millisecond)) } // a slow reader
		}
		err = balance(v.DB, p, pause)
		v.Release()
		if err != nil {
			return err
		}
		answers.Add(1)
		if p.Epoch < last.Epoch || p.Epoch == last.Epoch && (p.TXID < last.TXID || p.Seq < last.Seq) {
			return fmt.Errorf("went back from %+v to %+v", last, p)
		}
		if p.Seq != last.Seq {
			states.Add(1)
		}
		last = p
		time.Sleep(100 * time.Microsecond) // the others have two processors as well
	}
}
