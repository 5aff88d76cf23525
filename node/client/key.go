package client

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// newKey returns an idempotency key in the form of a UUIDv7 (RFC 9562, section
// 5.7): 48 bits of milliseconds, so that keys made together lie together in
// the node's index, and 74 random bits.
func newKey(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// WorkerName returns a name for a worker of this process, host:pid:random. The
// random part keeps two containers apart that share a host name and a pid.
func WorkerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	var b [4]byte
	rand.Read(b[:])
	return fmt.Sprintf("%.80s:%d:%x", host, os.Getpid(), b)
}
