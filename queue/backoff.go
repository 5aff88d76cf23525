package queue

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// BackoffKind is how the delay between attempts grows.
type BackoffKind string

// The kinds of back-off. n counts the failures so far, from 1.
const (
	BackoffExponential BackoffKind = "exponential" // Base · 2ⁿ⁻¹
	BackoffQuadratic   BackoffKind = "quadratic"   // Base · n²
	BackoffFixed       BackoffKind = "fixed"       // Base
	BackoffList        BackoffKind = "list"        // Delays[n−1], the last one for all that follow
)

// Backoff says how long a failed job waits for its next attempt. Up to 30 % of
// jitter is added to the delay, so that jobs that failed together do not come
// back together; a job never comes back before its delay.
type Backoff struct {
	Kind   BackoffKind
	Base   time.Duration // whole milliseconds, as all durations here
	Max    time.Duration // 0: one hour
	Delays []time.Duration
}

// DefaultBackoff is that of a queue without settings: 15 s, doubled with each
// failure, at most an hour.
func DefaultBackoff() Backoff {
	return Backoff{Kind: BackoffExponential, Base: 15 * time.Second, Max: time.Hour}
}

const maxBackoffDelays = 50

// Validate returns a *SpecError that names what is wrong.
func (b Backoff) Validate() error {
	bad := func(reason string, args ...any) error {
		return &SpecError{Field: "backoff", Reason: fmt.Sprintf(reason, args...)}
	}
	if b.Max < 0 || b.Max > MaxTimeout {
		return bad("max must be from 0 to 7 days")
	}
	switch b.Kind {
	case BackoffExponential, BackoffQuadratic, BackoffFixed:
		if b.Base < time.Millisecond || b.Base > MaxTimeout {
			return bad("%s needs a base of 1 ms to 7 days", b.Kind)
		}
		if len(b.Delays) > 0 {
			return bad("delays go with the kind list")
		}
	case BackoffList:
		if len(b.Delays) == 0 || len(b.Delays) > maxBackoffDelays {
			return bad("list needs 1 to %d delays", maxBackoffDelays)
		}
		for _, d := range b.Delays {
			if d < 0 || d > MaxTimeout {
				return bad("each delay must be from 0 to 7 days")
			}
		}
	default:
		return bad("%q is not a kind; use exponential, quadratic, fixed or list", b.Kind)
	}
	return nil
}

// Delay returns the wait after the n-th failure, from 1, without jitter.
func (b Backoff) Delay(n int) time.Duration {
	n = max(n, 1)
	limit := b.Max
	if limit == 0 {
		limit = time.Hour
	}
	var d time.Duration
	switch b.Kind {
	case BackoffList:
		return b.Delays[min(n, len(b.Delays))-1]
	case BackoffFixed:
		return b.Base
	case BackoffQuadratic:
		d = mulCapped(b.Base, int64(n)*int64(n), limit)
	default:
		d = mulCapped(b.Base, int64(1)<<min(n-1, 40), limit)
	}
	return d
}

func mulCapped(d time.Duration, k int64, limit time.Duration) time.Duration {
	if d >= limit || k > int64(limit/d) {
		return limit
	}
	return min(d*time.Duration(k), limit)
}

// jitter adds 0 to 30 % to d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + time.Duration(rand.Int64N(int64(d)*3/10+1))
}
