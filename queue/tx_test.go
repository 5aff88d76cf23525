package queue_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/queue"
)

func TestTx(t *testing.T) {
	exec := func(tx *queue.Tx, query string, args ...any) error {
		_, err := tx.Exec(query, args...)
		return err
	}
	setUp := func(t *testing.T) (*queue.Queue, string, func() int) {
		t.Helper()
		q, path := newQueue(t)
		if err := q.Tx(ctx, func(tx *queue.Tx) error { return exec(tx, "create table orders(id integer primary key, jobs text)") }); err != nil {
			t.Fatal(err)
		}
		return q, path, func() (n int) {
			if err := q.Tx(ctx, func(tx *queue.Tx) error { return tx.QueryRow("select count(*) from orders").Scan(&n) }); err != nil {
				t.Error(err)
			}
			return n
		}
	}
	t.Run("the rows and the job are there together, and a waiting claim is woken", func(t *testing.T) {
		q, path, orders := setUp(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"mail"}, Wait: 10 * time.Second})
			if err != nil || len(out.Jobs) != 1 || string(out.Jobs[0].Payload) != "7" {
				t.Errorf("the claim got %+v, %v", out, err)
			}
		})
		time.Sleep(50 * time.Millisecond)
		seq := q.Seq()
		err := q.Tx(ctx, func(tx *queue.Tx) error {
			if d := time.Since(tx.Now()); d < -time.Second || d > time.Minute {
				t.Errorf("Now is %v ago", d)
			}
			if err := exec(tx, "insert into orders values (?, 'x')", 7); err != nil {
				return err
			}
			_, err := tx.Enqueue(queue.Spec{Queue: "mail", Payload: payload(7), IdempotencyKey: "order 7"})
			return err
		})
		if err != nil || q.Seq().N <= seq.N {
			t.Errorf("seq %v, then %v, %v", seq, q.Seq(), err)
		}
		wg.Wait()
		if n := orders(); n != 1 {
			t.Errorf("%d orders", n)
		}
		checkCounts(t, path)
	})
	t.Run("an error undoes both, alone", func(t *testing.T) {
		q, path, orders := setUp(t)
		mine := errors.New("mine")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { enqueue(t, q, queue.Spec{Queue: "others"}) })
			wg.Go(func() {
				err := q.Tx(ctx, func(tx *queue.Tx) error {
					if err := exec(tx, "insert into orders(jobs) values ('x')"); err != nil {
						return err
					}
					if _, err := tx.Enqueue(queue.Spec{Queue: "mail", Type: "new", IdempotencyKey: "k"}); err != nil {
						return err
					}
					return mine
				})
				wantErr(t, err, mine)
			})
		}
		wg.Wait()
		info, err := q.Queues(ctx)
		if err != nil || len(info) != 1 || info[0].Counts.Queued != 20 || orders() != 0 {
			t.Errorf("queues %+v, %d orders, %v", info, orders(), err)
		}
		if in := enqueue(t, q, queue.Spec{Queue: "mail", Type: "new", IdempotencyKey: "k"})[0]; in.Duplicate {
			t.Error("it left its key behind")
		}
		checkCounts(t, path)
	})
	t.Run("a refused enqueue leaves the rest as it is", func(t *testing.T) {
		q, path, orders := setUp(t)
		enqueue(t, q, queue.Spec{Queue: "mail", IdempotencyKey: "k"})
		err := q.Tx(ctx, func(tx *queue.Tx) error {
			if err := exec(tx, "insert into orders(jobs) values ('x')"); err != nil {
				return err
			}
			_, err := tx.Enqueue(queue.Spec{Queue: "fresh"}, queue.Spec{Queue: "mail", IdempotencyKey: "k", Priority: 1})
			wantErr(t, err, queue.ErrIdempotencyConflict)
			if _, err := tx.Enqueue(queue.Spec{Queue: ""}); err == nil {
				t.Error("a bad spec was accepted")
			}
			out, err := tx.Enqueue(queue.Spec{Queue: "mail", IdempotencyKey: "k"})
			if err != nil || !out[0].Duplicate {
				t.Errorf("%+v, %v", out, err)
			}
			return nil
		})
		info, _ := q.Queues(ctx)
		if err != nil || orders() != 1 || len(info) != 1 || info[0].Counts.Queued != 1 {
			t.Errorf("%d orders, queues %+v, %v", orders(), info, err)
		}
		checkCounts(t, path)
	})
	t.Run("what would break the queue is refused", func(t *testing.T) {
		q, path, orders := setUp(t)
		enqueue(t, q, queue.Spec{Queue: "mail"})
		for _, query := range []string{
			"commit", "rollback", "begin", "savepoint x", "release op", "rollback to op", "insert into orders values (1,'x'); commit", "pragma journal_mode=delete",
			"attach ':memory:' as m", "update jobs set state=6", "delete from counts", "drop table jobs", "alter table jobs add column x", "create index i on jobs(run)",
			"create trigger t after insert on jobs begin select 1; end", "vacuum", "analyze",
		} {
			err := q.Tx(ctx, func(tx *queue.Tx) error {
				_, err := tx.Exec(query)
				if err == nil {
					t.Errorf("%q was let through", query)
				}
				return err
			})
			if err == nil {
				t.Errorf("%q: no error", query)
			}
		}
		if n := orders(); n != 0 {
			t.Errorf("%d orders", n)
		}
		checkCounts(t, path)
		claimOne(t, q, "mail")
	})
	t.Run("the tables of the queue can be read", func(t *testing.T) {
		q, _, _ := setUp(t)
		enqueue(t, q, queue.Spec{Queue: "mail"}, queue.Spec{Queue: "mail"})
		err := q.Tx(ctx, func(tx *queue.Tx) error {
			rows, err := tx.Query("select state from job where queue = 'mail'") //nolint:sqlclosecheck // that is the point
			if err != nil || !rows.Next() || rows.Err() != nil {                // and left open
				t.Errorf("no row: %v", err)
			}
			if err := tx.QueryRow("select id from orders").Scan(new(int)); !errors.Is(err, sql.ErrNoRows) {
				t.Errorf("got %v", err)
			}
			return nil
		})
		wantErr(t, err, nil)
	})
	t.Run("one that takes too long is rolled back, and the others go on", func(t *testing.T) {
		q, path, orders := setUp(t)
		var kept *queue.Tx
		start := time.Now()
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			err := q.Tx(ctx, func(tx *queue.Tx) error {
				kept = tx
				if err := exec(tx, "insert into orders(jobs) values ('x')"); err != nil {
					return err
				}
				<-release
				return exec(tx, "insert into orders(jobs) values ('y')")
			})
			wantErr(t, err, queue.ErrTxTimeout)
		})
		time.Sleep(100 * time.Millisecond)
		enqueue(t, q, queue.Spec{Queue: "mail"})
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("others waited for %v", d)
		}
		close(release)
		wg.Wait()
		if _, err := kept.Exec("insert into orders(jobs) values ('z')"); err == nil {
			t.Error("the transaction lives on")
		}
		// A statement that does not end.
		err := q.Tx(ctx, func(tx *queue.Tx) error {
			return exec(tx, "insert into orders(jobs) with recursive c(x) as (select 1 union all select x+1 from c) select x from c where x < 0")
		})
		wantErr(t, err, queue.ErrTxTimeout)
		if n := orders(); n != 0 {
			t.Errorf("%d orders", n)
		}
		checkCounts(t, path)
	})
	t.Run("a panic is the caller's", func(t *testing.T) {
		q, _, orders := setUp(t)
		func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("recovered %v", p)
				}
			}()
			q.Tx(ctx, func(tx *queue.Tx) error { //nolint:errcheck // it panics
				if err := exec(tx, "insert into orders(jobs) values ('x')"); err != nil {
					t.Error(err)
				}
				panic("mine")
			})
		}()
		if n := orders(); n != 0 {
			t.Errorf("%d orders", n)
		}
	})
	t.Run("a panic does not hold up the queue when its round fails for another", func(t *testing.T) {
		q, path, orders := setUp(t)
		var wg sync.WaitGroup
		began, release := make(chan struct{}), make(chan struct{})
		begin := sync.OnceFunc(func() { close(began) }) // it runs again
		wg.Go(func() {                                  // while it runs the others come, and share its round
			err := q.Tx(ctx, func(*queue.Tx) error {
				begin()
				<-release
				return nil
			})
			wantErr(t, err, nil)
		})
		<-began
		wg.Go(func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("recovered %v", p)
				}
			}()
			q.Tx(ctx, func(*queue.Tx) error { panic("mine") }) //nolint:errcheck // it panics
		})
		time.Sleep(50 * time.Millisecond)
		wg.Go(func() {
			err := q.Tx(ctx, func(tx *queue.Tx) error {
				return exec(tx, "insert or rollback into orders values (1, 'x'), (1, 'y')")
			})
			if err == nil {
				t.Error("a statement that rolls all back is no error")
			}
		})
		time.Sleep(50 * time.Millisecond)
		close(release)
		wg.Wait()
		short, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if _, _, err := q.Enqueue(short, queue.Spec{Queue: "mail"}); err != nil {
			t.Fatalf("the queue does not go on: %v", err)
		}
		if n := orders(); n != 0 {
			t.Errorf("%d orders", n)
		}
		checkCounts(t, path)
	})
	t.Run("the caller's tables can be written after a restart", func(t *testing.T) {
		q, path, _ := setUp(t)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q = open(t, path, queue.Options{})
		err := q.Tx(ctx, func(tx *queue.Tx) error { return exec(tx, "insert into orders values (1, 'x')") })
		wantErr(t, err, nil)
		if err := q.Tx(ctx, func(tx *queue.Tx) error { return exec(tx, "insert into orders values (1, 'x')") }); err == nil || strings.Contains(err.Error(), "savepoint") {
			t.Errorf("got %v, want the constraint", err)
		}
	})
}
