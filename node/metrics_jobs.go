package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/queue"
)

// Metered is a [Store] that counts what it does.
type Metered interface {
	Meters() []queue.Meter
	Load() queue.Load
}

var _ Metered = (*queue.Queue)(nil)

// jobMetrics describe what the queues have done since the file was opened. The
// labels are queues alone: jobs, types and workers would have no bound.
type jobMetrics struct {
	enqueued, claimed, done, failed, dead, cancelled *prometheus.Desc
	wait, run                                        *prometheus.Desc
	rounds, busy, locked, checkpoints                *prometheus.Desc
}

func newJobMetrics(metric func(name, help string, labels ...string) *prometheus.Desc) jobMetrics {
	return jobMetrics{
		enqueued:    metric("jobs_enqueued_total", "Jobs that were enqueued.", "queue"),
		claimed:     metric("jobs_claimed_total", "Jobs that were handed to a worker, each time.", "queue"),
		done:        metric("jobs_done_total", "Jobs that were acknowledged.", "queue"),
		failed:      metric("jobs_failed_total", "Runs that ended badly: failures, timeouts and crashes.", "queue"),
		dead:        metric("jobs_dead_total", "Jobs that ran out of attempts.", "queue"),
		cancelled:   metric("jobs_cancelled_total", "Jobs that were cancelled.", "queue"),
		wait:        metric("job_wait_seconds", "From when a job could be claimed to its claim.", "queue"),
		run:         metric("job_run_seconds", "From a claim to the end of the run.", "queue"),
		rounds:      metric("writer_rounds_total", "Transactions of the writer."),
		busy:        metric("writer_busy_seconds_total", "Time that the writer spent in transactions; at one second a second it can do no more."),
		locked:      metric("sqlite_busy_total", "Transactions that failed because another process held the database."),
		checkpoints: metric("checkpoints_total", "Checkpoints of the WAL that replication made."),
	}
}

func (m *jobMetrics) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		m.enqueued, m.claimed, m.done, m.failed, m.dead, m.cancelled, m.wait, m.run, m.rounds, m.busy, m.locked, m.checkpoints,
	}
}

func (m *jobMetrics) collect(ch chan<- prometheus.Metric, s Metered) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	for _, q := range s.Meters() {
		count(m.enqueued, float64(q.Enqueued), q.Queue)
		count(m.claimed, float64(q.Claimed), q.Queue)
		count(m.done, float64(q.Done), q.Queue)
		count(m.failed, float64(q.Failed), q.Queue)
		count(m.dead, float64(q.Dead), q.Queue)
		count(m.cancelled, float64(q.Cancelled), q.Queue)
		spans(ch, m.wait, &q.Wait, q.Queue)
		spans(ch, m.run, &q.Run, q.Queue)
	}
	load := s.Load()
	count(m.rounds, float64(load.Rounds))
	count(m.busy, load.Busy.Seconds())
	count(m.locked, float64(load.Locked))
	count(m.checkpoints, checkpoints())
}

// spans writes a histogram, whose buckets count all below their bound.
func spans(ch chan<- prometheus.Metric, d *prometheus.Desc, s *queue.Spans, label string) {
	buckets, total := map[float64]uint64{}, uint64(0)
	for i, bound := range queue.SpanBuckets() {
		total += uint64(s.Buckets[i])
		buckets[bound.Seconds()] = total
	}
	ch <- prometheus.MustNewConstHistogram(d, uint64(s.Count), s.Sum.Seconds(), buckets, label)
}

// checkpoints asks Litestream's own metrics, which are in the process's registry.
func checkpoints() float64 {
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return 0
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "litestream_checkpoint_count" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
