package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What differs between two errors of one kind, in the order of replacement:
// addresses and ids before the plain numbers that they contain.
var variable = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`), // UUID
	regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+`),                                            // mail address
	regexp.MustCompile(`\[[0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F:.]*\]`),                                // IPv6 address
	regexp.MustCompile(`0x[0-9a-fA-F]+`),                                                              // memory address
	regexp.MustCompile(`\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\b`),                                        // hash
	regexp.MustCompile(`-?([0-9]+(\.[0-9]+)?(h|m|s|ms|µs|us|ns))+\b`),                                 // duration
	regexp.MustCompile(`-?[0-9]+(\.[0-9]+)*`),                                                         // number, IPv4 address
	regexp.MustCompile(`\s+`),
}

const fingerprinted = 1024 // bytes of an error that its fingerprint looks at

// fingerprint returns a number that errors of one kind share: what varies from
// one occurrence to the next is taken out first.
func fingerprint(message string) int64 {
	b := []byte(strings.TrimSpace(message[:min(len(message), fingerprinted)]))
	for _, re := range variable {
		b = re.ReplaceAll(b, []byte("#"))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// reason is an error as a job keeps it.
type reason struct {
	text string
	fp   int64
}

// because takes the fingerprint, which is better done in the caller's
// goroutine than in the writer's.
func because(text string) reason {
	text = clip(text, MaxError)
	return reason{text, fingerprint(text)}
}

func formatFingerprint(fp int64) string { return fmt.Sprintf("%016x", uint64(fp)) }

func parseFingerprint(s string) (int64, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, &SpecError{Field: "error", Reason: "must be an error fingerprint of 16 hexadecimal digits, as in error_fp"}
	}
	return int64(v), nil
}
