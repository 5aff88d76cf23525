package queue_test

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/queue"
)

// BenchmarkLife is a job's whole life, in process, from 64 goroutines.
func BenchmarkLife(b *testing.B) {
	q, err := queue.Open(ctx, filepath.Join(b.TempDir(), "q.db"), queue.Options{DiskWatermark: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	body := payload(strings.Repeat("x", 98))
	var next atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if _, _, err := q.Enqueue(ctx, queue.Spec{Queue: "bench", Payload: body}); err != nil {
					b.Error(err)
					return
				}
				out, _, err := q.Claim(ctx, queue.ClaimRequest{Queues: []string{"bench"}, Worker: "w", Wait: time.Second})
				if err != nil || len(out.Jobs) != 1 {
					b.Error(len(out.Jobs), err)
					return
				}
				if _, _, err := q.Ack(ctx, []queue.Ack{{Lease: out.Jobs[0].Lease}}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
