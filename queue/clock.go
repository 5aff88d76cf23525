package queue

import "time"

// clock gives the two times of a round, in Unix milliseconds. Wall follows the
// machine's clock and decides when a job is due; lease is wall time at the
// start plus what the monotonic clock has counted since, so a step of the
// machine's clock neither ends leases nor keeps them alive.
type clock struct {
	now  func() time.Time
	base time.Time
}

func newClock(now func() time.Time) clock {
	if now == nil {
		now = time.Now
	}
	return clock{now: now, base: now()}
}

type instant struct {
	wall  int64
	lease int64
}

func (c clock) read() instant {
	t := c.now()
	return instant{wall: t.UnixMilli(), lease: c.base.UnixMilli() + t.Sub(c.base).Milliseconds()}
}

// none stands for "no time" in columns that keep their width: 2^40, a moment
// of 2004 that no job has.
const none = int64(1) << 40

func fromMS(ms int64) time.Time {
	if ms == 0 || ms == none {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func toMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
