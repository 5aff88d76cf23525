package queue

import (
	"cmp"
	"encoding/json"
	"time"
)

// settings are a queue's own, in the column queues.settings; what is absent
// has its default. Durations are milliseconds.
type settings struct {
	Paused      bool            `json:"paused,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	TimeoutMS   int64           `json:"timeout_ms,omitempty"`
	LeaseMS     int64           `json:"lease_ms,omitempty"`
	Backoff     *backoff        `json:"backoff,omitempty"`
	Durability  string          `json:"durability,omitempty"`
	MaxDepth    int64           `json:"max_depth,omitempty"`
	Keep        map[string]keep `json:"keep,omitempty"` // by the name of the state
}

// keep is a Retention as it is stored.
type keep struct {
	AgeMS int64 `json:"age_ms,omitempty"` // 0: the state's default; negative: for ever
	Last  int64 `json:"last,omitempty"`   // 0: any number
}

// backoff is a Backoff as it is stored.
type backoff struct {
	Kind     BackoffKind `json:"kind"`
	BaseMS   int64       `json:"base_ms,omitempty"`
	MaxMS    int64       `json:"max_ms,omitempty"`
	DelaysMS []int64     `json:"delays_ms,omitempty"`
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func storedBackoff(b *Backoff) *backoff {
	if b == nil {
		return nil
	}
	s := &backoff{Kind: b.Kind, BaseMS: b.Base.Milliseconds(), MaxMS: b.Max.Milliseconds()}
	for _, d := range b.Delays {
		s.DelaysMS = append(s.DelaysMS, d.Milliseconds())
	}
	return s
}

func (s *backoff) public() Backoff {
	b := Backoff{Kind: s.Kind, Base: millis(s.BaseMS), Max: millis(s.MaxMS)}
	for _, ms := range s.DelaysMS {
		b.Delays = append(b.Delays, millis(ms))
	}
	return b
}

func parseSettings(text []byte) (settings, error) {
	var s settings
	if len(text) == 0 {
		return s, nil
	}
	err := json.Unmarshal(text, &s)
	return s, err
}

// retention is how long the queue's jobs are kept in a final state, and how
// many of them.
func (s *settings) retention(state State) keep {
	k := s.Keep[state.String()]
	if k.AgeMS == 0 {
		k.AgeMS = DefaultRetention.Milliseconds()
		if state == StateDead {
			k.AgeMS = -1
		}
	}
	return k
}

func (s *settings) lease() time.Duration { return cmp.Or(millis(s.LeaseMS), DefaultLease) }

// spec is what a job has of its own, in the column jobs.spec; what is absent
// is as its queue's settings have it.
type spec struct {
	MaxAttempts int               `json:"max_attempts,omitempty"`
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`
	Backoff     *backoff          `json:"backoff,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Traceparent string            `json:"traceparent,omitempty"`
}

func (s *spec) empty() bool {
	return s.MaxAttempts == 0 && s.TimeoutMS == 0 && s.Backoff == nil && len(s.Tags) == 0 && s.Traceparent == ""
}

// text is the spec as it is stored: JSON, or nil for none.
func (s *spec) text() (any, error) {
	if s.empty() {
		return nil, nil
	}
	text, err := json.Marshal(s)
	return string(text), err
}

// policy is what bounds a job's runs: its own wishes where it has any, else
// its queue's settings, else the defaults.
type policy struct {
	MaxAttempts int
	Timeout     time.Duration
	Backoff     Backoff
	Tags        map[string]string
	Traceparent string
}

// policyOf reads a job's spec over its queue's settings. A wish that cannot be
// read is none: one bad row must not hold up the others.
func policyOf(text []byte, s *settings) policy {
	var own spec
	if len(text) > 0 && json.Unmarshal(text, &own) != nil {
		own = spec{}
	}
	p := policy{
		MaxAttempts: cmp.Or(own.MaxAttempts, s.MaxAttempts, DefaultMaxAttempts),
		Timeout:     cmp.Or(millis(own.TimeoutMS), millis(s.TimeoutMS), DefaultTimeout),
		Tags:        own.Tags,
		Traceparent: own.Traceparent,
	}
	if p.Timeout < 0 || p.Timeout > MaxTimeout {
		p.Timeout = MaxTimeout
	}
	for _, b := range []*backoff{own.Backoff, s.Backoff} {
		if b != nil {
			if p.Backoff = b.public(); p.Backoff.Validate() == nil {
				return p
			}
		}
	}
	p.Backoff = DefaultBackoff()
	return p
}
