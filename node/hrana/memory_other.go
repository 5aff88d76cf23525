//go:build !linux

package hrana

// nativeMemory is not known on this system; queries are bounded by their time.
func nativeMemory() (int64, bool) { return 0, false }
