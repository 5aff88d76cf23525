package queue

import "testing"

// TestFingerprint: what varies between two errors of one kind makes no
// difference, and what tells two kinds apart does. The numbers are in files:
// they must never change.
func TestFingerprint(t *testing.T) {
	for _, kind := range []struct {
		fp     string
		errors []string
	}{
		{"eba3cac31a04d905", []string{"timeout after 10m0s", "timeout after 1.5s", "timeout after 1h2m3s"}},
		{"f0a82f80610ac419", []string{"lease expired"}},
		{"21cd8154cc70ab0a", []string{
			"dial tcp 10.0.0.7:5432: connect: connection refused", "dial tcp 192.168.100.20:6543: connect: connection refused",
			"dial tcp  10.0.0.7:5432:\n connect: connection refused", "dial tcp [::1]:5432: connect: connection refused",
			"dial tcp [fe80::1ff:fe23:4567:890a]:1: connect: connection refused",
		}},
		{"e3579d0df0323953", []string{
			"order 4711 not found", "order 1 not found", "order 0123456789abcdef0123 not found", "order 123e4567-e89b-12d3-a456-426614174000 not found",
		}},
		{"a51c22c5a93d9685", []string{"no mailbox for anna.b+x@example.com", "no mailbox for carl@mail.example.org"}},
		{"c2984cda7e14e663", []string{"panic: nil map\ngoroutine 17 [running]:\nmain.f(0xc000123456)", "panic: nil map\ngoroutine 23 [running]:\nmain.f(0xc00ffffff0)"}},
		{"315b1f77915270e1", []string{"user not found", "user not found "}},
		{"a23d8a04c342b2dc", []string{"2026-01-02T03:04:05.678Z deadlock", "2027-11-12T13:14:15.1Z deadlock"}},
		{"3b470aba505ecef8", []string{"bad value: 1.5", "bad value: -27.25"}},
		{"e5fdcdd3fd24843d", []string{"bad value: abc"}},
		{"b0f42ad4a5256ef3", []string{"std::bad_alloc"}},
		{"e3b0c44298fc1c14", []string{""}},
	} {
		for _, message := range kind.errors {
			if got := formatFingerprint(fingerprint(message)); got != kind.fp {
				t.Errorf("%q: %s, want %s", message, got, kind.fp)
			}
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for b.Loop() {
		fingerprint("dial tcp 10.0.0.7:5432: connect: connection refused (order 4711 of anna@example.com)")
	}
}
