package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	connections     = 64
	payloadSize     = 100 // bytes of JSON
	defaultPatience = 8 * time.Second
)

// load is one measurement against one server: jobs in requests of batch. A
// load ends early when its patience does, so that a slow disk bounds the time
// of a suite and not its size.
type load struct {
	s        *server
	jobs     int // rounded up to whole requests
	batch    int
	patience time.Duration // 0: defaultPatience
}

func (l load) patient(start time.Time) bool {
	return time.Since(start) < cmp.Or(l.patience, defaultPatience)
}

// rate is jobs a second from start to end.
func rate(jobs int64, start, end time.Time) float64 {
	return float64(jobs) / end.Sub(start).Seconds()
}

// each runs f on n connections at once.
func each(ctx context.Context, addr string, n int, f func(int, *conn) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error {
			c, err := dialConn(ctx, addr)
			if err != nil {
				return err
			}
			defer c.close()
			return f(i, c)
		})
	}
	return g.Wait()
}

// enqueue adds the load's jobs and returns the rate and how many there are.
func (l load) enqueue(ctx context.Context) (float64, int, error) {
	var taken, done atomic.Int64
	start := time.Now()
	err := each(ctx, l.s.addr, connections, func(_ int, c *conn) error {
		req := newEnqueueRequest(l.batch, "")
		for l.patient(start) {
			if taken.Add(int64(l.batch)) >= int64(l.jobs+l.batch) {
				return nil
			}
			req.number(l.s.keys.Add(int64(l.batch)) - int64(l.batch))
			if _, err := c.do(req.bytes); err != nil {
				return fmt.Errorf("enqueue: %w", err)
			}
			done.Add(int64(l.batch))
		}
		return nil
	})
	return rate(done.Load(), start, time.Now()), int(done.Load()), err
}

// process claims and acks the load's jobs, which must be there, and returns
// the rate. Each request acks the last jobs and claims the next ones.
func (l load) process(ctx context.Context) (float64, error) {
	start := time.Now()
	var done atomic.Int64
	err := each(ctx, l.s.addr, connections, func(i int, c *conn) error {
		w := newWorker(c, i, l.batch, 0)
		for l.patient(start) {
			acked, err := w.next()
			if err != nil {
				return err
			}
			done.Add(int64(acked))
			if len(w.leases) == 0 {
				return nil
			}
		}
		acked, err := w.finish()
		done.Add(int64(acked))
		return err
	})
	return rate(done.Load(), start, time.Now()), err
}

// endToEnd enqueues and processes at once, on as many connections each, and
// returns the rate from the first enqueue to the last ack.
func (l load) endToEnd(ctx context.Context) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	var claimed, done, target, last atomic.Int64
	start := time.Now()
	target.Store(int64((l.jobs + l.batch - 1) / l.batch * l.batch))
	g.Go(func() error {
		_, enqueued, err := l.enqueue(ctx)
		target.Store(int64(enqueued)) // fewer when its patience ended
		return err
	})
	g.Go(func() error {
		return each(ctx, l.s.addr, connections, func(i int, c *conn) error {
			w := newWorker(c, i, l.batch, 50*time.Millisecond)
			for done.Load() < target.Load() {
				step := w.next
				if claimed.Load() >= target.Load() { // nothing is left to wait for
					if len(w.leases) == 0 {
						return nil
					}
					step = w.finish
				}
				acked, err := step()
				if err != nil {
					return err
				}
				claimed.Add(int64(len(w.leases)))
				// The workers' last waits for a job that will not come are no
				// part of the measurement.
				if done.Add(int64(acked)) >= target.Load() {
					last.CompareAndSwap(0, time.Now().UnixNano())
				}
			}
			return nil
		})
	})
	if err := g.Wait(); err != nil {
		return 0, err
	}
	end := time.Now()
	if last.Load() != 0 {
		end = time.Unix(0, last.Load())
	}
	return rate(done.Load(), start, end), nil
}

// worker is the claiming side of a load on one connection.
type worker struct {
	c      *conn
	head   string // of the claim's body, up to its acks
	leases [][]byte
	body   []byte
	req    []byte
}

func newWorker(c *conn, i, batch int, wait time.Duration) *worker {
	return &worker{c: c, head: fmt.Sprintf(`{"queues":["bench"],"worker":"bench:%d","max":%d,"wait_ms":%d`, i, batch, wait.Milliseconds())}
}

// next acks the jobs of the last claim and claims the next ones. It returns
// how many were acked.
func (w *worker) next() (int, error) {
	w.body = append(w.body[:0], w.head...)
	if len(w.leases) > 0 {
		w.body = append(w.body, `,"acks":`...)
		w.body = w.appendAcks(w.body)
	}
	w.body = append(w.body, '}')
	return w.send("/v1/claims")
}

// finish acks the jobs of the last claim.
func (w *worker) finish() (int, error) {
	if len(w.leases) == 0 {
		return 0, nil
	}
	w.body = append(w.body[:0], `{"acks":`...)
	w.body = w.appendAcks(w.body)
	w.body = append(w.body, '}')
	return w.send("/v1/acks")
}

func (w *worker) appendAcks(b []byte) []byte {
	b = append(b, '[')
	for i, lease := range w.leases {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"lease":"`...)
		b = append(b, lease...)
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

func (w *worker) send(path string) (int, error) {
	w.req = appendPost(w.req[:0], path, w.body)
	want := len(w.leases)
	answer, err := w.c.do(w.req)
	if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	if got := bytes.Count(answer, []byte(`"ok":true`)); got != want {
		return 0, fmt.Errorf("claim: %d of %d acks were taken: %s", got, want, answer)
	}
	w.leases, err = appendLeases(w.leases[:0], answer)
	return want, err
}

// enqueueRequest is a rendered request whose idempotency keys are written over
// in place: every enqueue of a client carries one, so the benchmark's do.
type enqueueRequest struct {
	bytes []byte
	keys  []int // where the digits of each key begin
}

const keyDigits = 16

// newEnqueueRequest renders a request of batch jobs. An empty durability is the
// node's default.
func newEnqueueRequest(batch int, durability string) *enqueueRequest {
	mark := strings.Repeat("0", keyDigits)
	spec := `{"queue":"bench","type":"bench","idempotency_key":"bench:` + mark + `","payload":"` + strings.Repeat("x", payloadSize-2) + `"}`
	if durability != "" {
		spec = strings.TrimSuffix(spec, "}") + `,"durability":"` + durability + `"}`
	}
	body := spec
	if batch > 1 {
		body = "[" + strings.TrimSuffix(strings.Repeat(spec+",", batch), ",") + "]"
	}
	r := &enqueueRequest{bytes: renderPost("/v1/jobs", []byte(body))}
	for at := 0; ; {
		i := bytes.Index(r.bytes[at:], []byte(mark))
		if i < 0 {
			return r
		}
		r.keys = append(r.keys, at+i)
		at += i + keyDigits
	}
}

// number gives the jobs of the request the keys first, first+1, …
func (r *enqueueRequest) number(first int64) {
	var digits [keyDigits]byte
	for i, at := range r.keys {
		n := strconv.AppendInt(digits[:0], first+int64(i), 10)
		key := r.bytes[at : at+keyDigits]
		for j := range key {
			key[j] = '0'
		}
		copy(key[keyDigits-len(n):], n)
	}
}
