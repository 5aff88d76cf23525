package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func TestAlive(t *testing.T) {
	t.Run("an idle writer answers, and writes nothing for it", func(t *testing.T) {
		q, _, _ := newFake(t)
		before := q.Seq()
		if err := q.Alive(t.Context()); err != nil {
			t.Error(err)
		}
		if after := q.Seq(); after != before {
			t.Errorf("seq: got %v, want %v", after, before)
		}
	})
	t.Run("one that hangs does not, not even with its list full", func(t *testing.T) {
		q, _, _ := newFake(t)
		hangs, goOn := make(chan struct{}), make(chan struct{})
		var g errgroup.Group
		g.Go(func() error {
			return q.do(context.Background(), &op{admin: func(*round) error {
				close(hangs)
				<-goOn
				return nil
			}})
		})
		<-hangs
		for range cap(q.w.ops) + 1 { // the last one finds no room
			ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
			if err := q.Alive(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want a deadline", err)
			}
			cancel()
		}
		close(goOn)
		if err := errors.Join(g.Wait(), q.Alive(t.Context())); err != nil {
			t.Errorf("it goes on: %v", err)
		}
	})
	t.Run("a closed one says so", func(t *testing.T) {
		q, _, _ := newFake(t)
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if err := q.Alive(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}
