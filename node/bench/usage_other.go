//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errNoProc = errors.New("the suite latency reads CPU time and memory from /proc, which only Linux has")

func cpuTime(int) (time.Duration, error) { return 0, errNoProc }

func residentBytes(int) (int64, error) { return 0, errNoProc }
