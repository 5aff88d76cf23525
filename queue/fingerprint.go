package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
)

// What differs between two errors of one kind, in the order of replacement:
// addresses and ids before the plain numbers that they contain.
var variable = []*regexp.Regexp{
	regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`), // UUID
	regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+`),                                            // mail address
	regexp.MustCompile(`0x[0-9a-fA-F]+`),                                                              // memory address
	regexp.MustCompile(`\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\b`),                                        // hash
	regexp.MustCompile(`[0-9]+`),
	regexp.MustCompile(`\s+`),
}

const fingerprinted = 1024 // bytes of an error that its fingerprint looks at

// fingerprint returns a number that errors of one kind share: what varies from
// one occurrence to the next is taken out first.
func fingerprint(message string) int64 {
	b := []byte(message[:min(len(message), fingerprinted)])
	for _, re := range variable {
		b = re.ReplaceAll(b, []byte("#"))
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func formatFingerprint(fp int64) string { return fmt.Sprintf("%016x", uint64(fp)) }

func parseFingerprint(s string) (int64, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, &SpecError{Field: "error", Reason: "must be an error fingerprint of 16 hexadecimal digits, as in error_fp"}
	}
	return int64(v), nil
}
