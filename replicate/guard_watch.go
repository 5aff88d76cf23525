package replicate

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// stalledError is the cause of a context that a watch ended.
type stalledError struct{ after time.Duration }

func (e *stalledError) Error() string { return fmt.Sprintf("nothing moved for %s", e.after) }

// Timeout makes it a timeout for those who ask as net.Error does.
func (e *stalledError) Timeout() bool { return true }

// watchdog ends a context when nothing moved for a while. It is a timer and no
// goroutine, so one that is never stopped leaks nothing past its deadline.
type watchdog struct {
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// watch returns a context that ends when limit passed without a call of moved.
func watch(ctx context.Context, limit time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{cancel: cancel}
	w.moved(limit)
	return ctx, w
}

// moved gives the context limit from now on.
func (w *watchdog) moved(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.timer = time.AfterFunc(limit, func() { w.cancel(&stalledError{limit}) })
}

// pause stops the clock until moved is called.
func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

// stop ends the context and the watch over it.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
	w.cancel(nil)
}
