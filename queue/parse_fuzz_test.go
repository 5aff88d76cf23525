package queue

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// FuzzLeaseToken reads any token: none is good but one that was given out.
func FuzzLeaseToken(f *testing.F) {
	s := newSigner(3, []byte("0123456789abcdef"))
	good := s.token(lease{7, 2})
	for _, seed := range []string{good, good + "A", good[:len(good)-1], "3.7.2.", "3.7.2", "-3.7.2.x", "3.9223372036854775808.1.x", "+3.7.2.x", strings.Repeat("1", 200), ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		l, ok := s.parse(token)
		if l.id < 0 || l.run < 0 {
			t.Errorf("%q: got %+v", token, l)
		}
		// The form of a token may be written in several ways; what it says is signed.
		if ok && !strings.HasPrefix(s.token(l), token[:strings.LastIndexByte(token, '.')+1]) {
			t.Errorf("%q is good for %+v", token, l)
		}
	})
}

// FuzzFilter reads any cursor and fingerprint.
func FuzzFilter(f *testing.F) {
	for i, seed := range []string{"1", "1_2", "-5_3_7", "1__2", "", "9223372036854775808"} {
		f.Add(uint8(i), seed, "0123456789abcdef")
	}
	f.Fuzz(func(t *testing.T, state uint8, after, fp string) {
		filter := Filter{State: State(state % uint8(StateCancelled+1)), After: after, ErrorFP: fp}
		if filter.State < StateBlocked {
			filter.State = 0
		}
		l, err := filter.listing()
		if err != nil {
			if _, ok := errors.AsType[*SpecError](err); !ok {
				t.Errorf("got %v", err)
			}
			return
		}
		if after != "" && len(l.after) != len(l.keys) {
			t.Errorf("%q: got %v for %v", after, l.after, l.keys)
		}
		if again, err := parseCursor(formatCursor(l.after), len(l.keys)); after != "" && (err != nil || len(again) != len(l.after)) {
			t.Errorf("%q became %v, %v", after, again, err)
		}
		if n, err := strconv.ParseUint(fp, 16, 64); fp != "" && (err != nil || formatFingerprint(int64(n)) != strings.ToLower(fp)) {
			t.Errorf("%q is a fingerprint", fp)
		}
	})
}
