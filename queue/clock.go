package queue

import "time"

// clock gives the times of a round. Wall follows the machine's clock and
// decides when a job is due. Lease decides when a lease ends: it is wall time
// carried on by the monotonic clock, so that a step of the machine's clock
// neither ends leases nor keeps them alive. When the two part by more than
// maxDrift the writer moves the leases in the file by the difference, and the
// lease clock follows: what the file says of leases is never far from the
// wall, where the next process will begin.
type clock struct {
	wall  func() time.Time
	mono  func() time.Duration // since the start
	shift int64                // ms; lease = shift + mono. Only the writer reads and moves it
}

const maxDrift = 60_000 // ms

func newClock(opts *Options) clock {
	c := clock{wall: opts.Now, mono: opts.mono}
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.mono == nil {
		start := c.wall()
		c.mono = func() time.Duration { return c.wall().Sub(start) } // monotonic where wall's readings are
	}
	c.shift = c.wall().UnixMilli() - c.mono().Milliseconds()
	return c
}

// instant is the time of a round, in milliseconds.
type instant struct {
	wall  int64 // Unix
	lease int64 // Unix
	mono  int64 // since the start
}

func (c *clock) read() instant {
	mono := c.mono().Milliseconds()
	return instant{wall: c.wall().UnixMilli(), lease: c.shift + mono, mono: mono}
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
