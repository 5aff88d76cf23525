package hrana

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
)

// nativeMemory returns how much memory, in bytes, the process holds beside
// Go's heap: SQLite's, which has no counter that could be read from outside.
// false: it cannot be told.
func nativeMemory() (int64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, false
	}
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return pages*int64(os.Getpagesize()) - int64(samples[0].Value.Uint64()-samples[1].Value.Uint64()), true
}
