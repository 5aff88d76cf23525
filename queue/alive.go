package queue

import "context"

// Alive returns nil once the writer has come round: it has answered what was
// handed to it before, and took this too. It changes nothing. While a commit
// hangs, as on a disk that is gone, it waits for ctx.
//
// Errors: ErrClosed, ctx.Err(), and that of Failed.
func (q *Queue) Alive(ctx context.Context) error {
	o := &op{done: make(chan struct{})}
	if err := q.offer(ctx, o); err != nil {
		return err
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// offer is send for one who would rather go than wait for room.
func (q *Queue) offer(ctx context.Context, o *op) error {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return ErrClosed
	}
	select {
	case q.w.ops <- o:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
