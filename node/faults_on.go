//go:build faults

package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
	"unsafe"
)

// clockFile is the file clock in the folder HOLDFAST_FAULTS: how far the node's
// clocks are from those of the machine. A step of the wall clock is wall_ms; a
// machine that slept for a while has a mono_ms of minus that.
type clockFile struct {
	WallMS int64 `json:"wall_ms"`
	MonoMS int64 `json:"mono_ms"`
}

// now is the machine's clock with both readings moved apart by the file, which
// package time itself never does: its Add moves both.
func now() time.Time {
	t := time.Now()
	text, err := os.ReadFile(filepath.Join(os.Getenv("HOLDFAST_FAULTS"), "clock"))
	var f clockFile
	if err != nil || json.Unmarshal(text, &f) != nil {
		return t
	}
	t = t.Add(time.Duration(f.WallMS) * time.Millisecond)
	// The second word of a Time that has a monotonic reading is that reading, in
	// nanoseconds. now's test sees whether that still holds.
	mono := (*int64)(unsafe.Add(unsafe.Pointer(&t), 8))
	*mono += (f.MonoMS - f.WallMS) * int64(time.Millisecond)
	return t
}
