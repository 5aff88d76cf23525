package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/queue"
)

const (
	floorJobs  = 32_000
	floorBatch = 64 // jobs of a transaction of the floor, and goroutines of ours
)

// floorSuite measures how much of what SQLite alone can do is left: by the
// package queue in one process, and by the API in batches. The yardstick is a
// bare loop over the same statements, 64 to a transaction.
func floorSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	jobs := e.size(floorJobs)
	var inProcess, batch, floors, ours, batches []float64
	for i := range pairs {
		var v [3]float64
		for j := range v {
			kind := (i + j) % len(v)
			rate, err := []func(context.Context, *env, int) (float64, error){floorOnce, inProcessOnce, batchOnce}[kind](ctx, e, jobs)
			if err != nil {
				return err
			}
			v[kind] = rate
		}
		e.logf("floor %d/%d: %.0f jobs/s, in process %.0f, over HTTP in batches %.0f", i+1, pairs, v[0], v[1], v[2])
		floors, ours, batches = append(floors, v[0]), append(ours, v[1]), append(batches, v[2])
		inProcess, batch = append(inProcess, v[1]/v[0]), append(batch, v[2]/v[0])
	}
	r.Ratios["inprocess_e2e_over_floor"] = median(inProcess)
	r.Ratios["batch_e2e_over_floor"] = median(batch)
	r.Rates["floor"], r.Rates["inprocess_e2e"], r.Rates["batch_e2e"] = median(floors), median(ours), median(batches)
	return nil
}

// size is how many jobs a measurement has: as asked for, or else n.
func (e *env) size(n int) int {
	if e.jobs > 0 {
		return e.jobs
	}
	return n
}

func benchPayload() json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", payloadSize-2) + `"`)
}

func floorOnce(ctx context.Context, e *env, jobs int) (float64, error) {
	dir, err := os.MkdirTemp(e.dir, "floor-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	jobs = (jobs + floorBatch - 1) / floorBatch * floorBatch
	took, err := queue.Floor(ctx, filepath.Join(dir, "floor.db"), jobs, floorBatch, benchPayload())
	if err != nil {
		return 0, fmt.Errorf("floor: %w", err)
	}
	return float64(jobs) / took.Seconds(), nil
}

// inProcessOnce takes jobs through their life by the package queue: each of 64
// goroutines enqueues one, then acks the last and claims the next, as a worker
// does.
func inProcessOnce(ctx context.Context, e *env, jobs int) (v float64, err error) {
	dir, err := os.MkdirTemp(e.dir, "queue-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	q, err := queue.Open(ctx, filepath.Join(dir, "queue.db"), queue.Options{DiskWatermark: -1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	var taken, done atomic.Int64
	payload := benchPayload()
	if err := oneLife(ctx, q, payload); err != nil { // makes the names
		return 0, err
	}
	start := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for w := range floorBatch {
		g.Go(func() error {
			req := queue.ClaimRequest{Queues: []string{"bench"}, Worker: fmt.Sprint("bench:", w), Wait: time.Second}
			for n := taken.Add(1); n <= int64(jobs); n = taken.Add(1) {
				spec := queue.Spec{Queue: "bench", Type: "bench", Payload: payload, IdempotencyKey: fmt.Sprintf("bench:%016d", n)}
				if _, _, err := q.Enqueue(ctx, spec); err != nil {
					return err
				}
				claims, _, err := q.Claim(ctx, req)
				if err != nil {
					return err
				}
				done.Add(int64(len(req.Acks)))
				req.Acks = req.Acks[:0]
				for _, j := range claims.Jobs {
					req.Acks = append(req.Acks, queue.Ack{Lease: j.Lease})
				}
			}
			if len(req.Acks) == 0 {
				return nil
			}
			_, _, err := q.Ack(ctx, req.Acks)
			done.Add(int64(len(req.Acks)))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	if done.Load() != int64(jobs) {
		return 0, fmt.Errorf("in process: %d of %d jobs were done", done.Load(), jobs)
	}
	return rate(done.Load(), start, time.Now()), nil
}

func oneLife(ctx context.Context, q *queue.Queue, payload json.RawMessage) error {
	if _, _, err := q.Enqueue(ctx, queue.Spec{Queue: "bench", Type: "bench", Payload: payload}); err != nil {
		return err
	}
	claims, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"bench"}, Worker: "bench"})
	if err != nil {
		return err
	}
	_, _, err = q.Ack(ctx, []queue.Ack{{Lease: claims.Jobs[0].Lease}})
	return err
}

// batchOnce takes jobs from end to end over HTTP, 32 a request.
func batchOnce(ctx context.Context, e *env, jobs int) (float64, error) {
	return endToEndOnce(ctx, e, load{jobs: 2 * jobs, batch: batchSize}, "--no-replica")
}
