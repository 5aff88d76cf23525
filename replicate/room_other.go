//go:build !linux

package replicate

import "math"

// spaceOf is not known here: a stream that gave way tries again and again.
func spaceOf(string) (free, total int64, err error) { return math.MaxInt64, 0, nil }
