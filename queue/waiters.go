package queue

import (
	"container/list"
	"sync/atomic"
	"time"
)

// claim is a claim on its way through the writer, perhaps through many rounds.
type claim struct {
	queues []string // in the order of preference
	max    int
	lease  time.Duration // 0: the queue's setting
	worker string
	waits  bool // if there is nothing to claim

	state    atomic.Int32
	answered chan struct{} // closed when jobs and seq are set
	jobs     []Claimed
	seq      int64

	arrival uint64
	places  []place // where it waits
	bytes   int     // of payloads dealt to it
}

type place struct {
	queue string
	elem  *list.Element
}

// A claim is answered or left, never both: whoever moves it out of
// claimWaiting first decides.
const (
	claimWaiting int32 = iota
	claimAnswered
	claimLeft
)

// leave moves the claim out of waiting, and reports whether it was the first to.
func (c *claim) leave(to int32) bool { return c.state.CompareAndSwap(claimWaiting, to) }

func (c *claim) waiting() bool { return c.state.Load() == claimWaiting }

// waiters are the claims that found nothing, for each queue in order of
// arrival. Only the writer touches them.
type waiters struct {
	next   uint64
	queues map[string]*list.List
}

func (w *waiters) add(c *claim) {
	if len(c.places) > 0 || !c.waiting() {
		return
	}
	if w.queues == nil {
		w.queues = map[string]*list.List{}
	}
	w.next++
	c.arrival = w.next
	for _, name := range c.queues {
		l := w.queues[name]
		if l == nil {
			l = list.New()
			w.queues[name] = l
		}
		c.places = append(c.places, place{name, l.PushBack(c)})
	}
}

func (w *waiters) remove(c *claim) {
	for _, p := range c.places {
		l := w.queues[p.queue]
		l.Remove(p.elem)
		if l.Len() == 0 {
			delete(w.queues, p.queue)
		}
	}
	c.places = nil
}

// first returns up to n claims that wait for a queue.
func (w *waiters) first(queue string, n int64) []*claim {
	l := w.queues[queue]
	if l == nil {
		return nil
	}
	var out []*claim
	for e := l.Front(); e != nil && int64(len(out)) < n; e = e.Next() {
		if c := e.Value.(*claim); c.waiting() {
			out = append(out, c)
		}
	}
	return out
}
