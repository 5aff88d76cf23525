package client

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"time"
)

// newKey returns an idempotency key in the form of a UUIDv7 (RFC 9562, section
// 5.7): 48 bits of milliseconds, so that keys made together lie together in
// the node's index, and 74 random bits.
func newKey(now time.Time) string {
	var b [16]byte
	rand.Read(b[6:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
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
	return fmt.Sprintf("%.80s:%d:%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}
