package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

func (s *Spec) validate(now time.Time) error {
	if err := validName("queue", s.Queue); err != nil {
		return err
	}
	if s.Type != "" {
		if err := validName("type", s.Type); err != nil {
			return err
		}
	}
	if err := validJSON("payload", s.Payload, MaxPayload); err != nil {
		return err
	}
	bad := func(field, reason string, args ...any) error {
		return &SpecError{field, fmt.Sprintf(reason, args...)}
	}
	switch {
	case s.Priority < MinPriority || s.Priority > MaxPriority:
		return bad("priority", "must be from %d to %d", MinPriority, MaxPriority)
	case s.Delay < 0 || s.Delay > MaxDelay:
		return bad("delay_ms", "must be from 0 to %d", MaxDelay.Milliseconds())
	case s.Delay > 0 && !s.RunAt.IsZero():
		return bad("delay_ms", "goes not together with run_at_ms: give one of them")
	case !s.RunAt.IsZero() && !plausible(s.RunAt, now):
		return bad("run_at_ms", "must be a time in Unix milliseconds, at most ten years ahead")
	case !s.ExpiresAt.IsZero() && !plausible(s.ExpiresAt, now):
		return bad("expires_at_ms", "must be a time in Unix milliseconds, at most ten years ahead")
	case s.MaxAttempts < 0 || s.MaxAttempts > MaxAttempts:
		return bad("max_attempts", "must be from 1 to %d, or 0 for the queue's setting", MaxAttempts)
	case !validTimeout(s.Timeout):
		return bad("timeout_ms", "must be from 1 to %d, or 0 for the queue's setting", MaxTimeout.Milliseconds())
	case len(s.IdempotencyKey) > MaxKey:
		return bad("idempotency_key", "at most %d bytes", MaxKey)
	case len(s.Traceparent) > MaxTraceparent || !utf8.ValidString(s.Traceparent):
		return bad("traceparent", "at most %d bytes of UTF-8", MaxTraceparent)
	}
	if s.Backoff != nil {
		if err := s.Backoff.Validate(); err != nil {
			return err
		}
	}
	return validTags(s.Tags)
}

// plausible tells seconds and microseconds from milliseconds.
func plausible(t, now time.Time) bool {
	return t.UnixMilli() > none && t.Before(now.Add(MaxDelay))
}

func validTimeout(d time.Duration) bool {
	return d == 0 || d >= time.Millisecond && d <= MaxTimeout
}

func validTags(tags map[string]string) error {
	if len(tags) > MaxTags {
		return &SpecError{"tags", fmt.Sprintf("at most %d", MaxTags)}
	}
	for name, value := range tags {
		switch {
		case name == "" || len(name) > 64 || len(value) > 256:
			return &SpecError{"tags", "a name has 1 to 64 bytes and a value at most 256"}
		case !utf8.ValidString(name) || !utf8.ValidString(value):
			return &SpecError{"tags", "must be UTF-8"}
		}
	}
	return nil
}

// validName checks the name of a queue or a type.
func validName(field, name string) error {
	if name == "" {
		return &SpecError{field, "is required"}
	}
	if len(name) > MaxName {
		return &SpecError{field, fmt.Sprintf("at most %d bytes", MaxName)}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
		case i > 0 && (c == '.' || c == '-' || c == ':'):
		default:
			return &SpecError{field, fmt.Sprintf("%q: use letters, digits and . _ : - and begin with a letter or digit", clip(name, MaxName))}
		}
	}
	return nil
}

// validJSON checks an optional JSON text.
func validJSON(field string, text json.RawMessage, limit int) error {
	if len(text) > limit {
		return &TooLargeError{Field: field, Limit: limit, Size: len(text)}
	}
	if len(text) > 0 && !json.Valid(text) {
		return &SpecError{field, "is not JSON"}
	}
	return nil
}

func validLease(field string, d time.Duration) error {
	if d != 0 && (d < MinLease || d > MaxLease) {
		return &SpecError{field, fmt.Sprintf("must be from %d to %d, or 0 for the queue's setting", MinLease.Milliseconds(), MaxLease.Milliseconds())}
	}
	return nil
}

func validBatch(field string, n int) error {
	if n > MaxBatch {
		return &SpecError{field, fmt.Sprintf("%d items; at most %d in a request", n, MaxBatch)}
	}
	return nil
}

func validAcks(field string, acks []Ack) error {
	for i, a := range acks {
		if err := validJSON("result", a.Result, MaxResult); err != nil {
			return inBatch(err, field, i)
		}
	}
	return validBatch(field, len(acks))
}

func validFails(field string, fails []Fail) error {
	for i, f := range fails {
		if f.RetryIn != nil {
			if err := validDelay("retry_in_ms", *f.RetryIn); err != nil {
				return inBatch(err, field, i)
			}
		}
	}
	return validBatch(field, len(fails))
}

func validSnoozes(field string, snoozes []Snooze) error {
	for i, s := range snoozes {
		if err := validDelay("delay_ms", s.Delay); err != nil {
			return inBatch(err, field, i)
		}
	}
	return validBatch(field, len(snoozes))
}

func validDelay(field string, d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return &SpecError{field, fmt.Sprintf("must be from 0 to %d", MaxDelay.Milliseconds())}
	}
	return nil
}

func validExtends(field string, extends []Extend) error {
	for i, e := range extends {
		err := validLease("lease_ms", e.For)
		if err == nil {
			err = validJSON("progress", e.Progress, MaxProgress)
		}
		if err != nil {
			return inBatch(err, field, i)
		}
	}
	return validBatch(field, len(extends))
}

// inBatch names the item of a batch that err is about.
func inBatch(err error, field string, i int) error {
	prefix := fmt.Sprintf("%s[%d].", field, i)
	var spec *SpecError
	if errors.As(err, &spec) {
		return &SpecError{prefix + spec.Field, spec.Reason}
	}
	var large *TooLargeError
	if errors.As(err, &large) {
		return &TooLargeError{prefix + large.Field, large.Limit, large.Size}
	}
	return err
}
