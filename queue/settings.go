package queue

import (
	"encoding/json"
	"time"
)

// settings are a queue's own, in the column queues.settings; what is absent
// has its default. Durations are milliseconds.
type settings struct {
	Paused      bool             `json:"paused,omitempty"`
	MaxAttempts int              `json:"max_attempts,omitempty"`
	TimeoutMS   int64            `json:"timeout_ms,omitempty"`
	LeaseMS     int64            `json:"lease_ms,omitempty"`
	Backoff     *Backoff         `json:"backoff,omitempty"`
	RetentionMS map[string]int64 `json:"retention_ms,omitempty"` // by state; negative: for ever
}

func parseSettings(text []byte) (settings, error) {
	var s settings
	if len(text) == 0 {
		return s, nil
	}
	err := json.Unmarshal(text, &s)
	return s, err
}

// retention is how long the queue's jobs are kept in a final state; negative
// means for ever.
func (s *settings) retention(state State) time.Duration {
	if ms, ok := s.RetentionMS[state.String()]; ok {
		return time.Duration(ms) * time.Millisecond
	}
	if state == StateDead {
		return -1
	}
	return DefaultRetention
}

func (s *settings) lease() time.Duration {
	if s.LeaseMS > 0 {
		return time.Duration(s.LeaseMS) * time.Millisecond
	}
	return DefaultLease
}

// policy is what bounds a job's runs: its own wishes where it has any, else
// its queue's settings, else the defaults. Own is also the column jobs.spec.
type policy struct {
	MaxAttempts int               `json:"max_attempts,omitempty"`
	TimeoutMS   int64             `json:"timeout_ms,omitempty"`
	Backoff     *Backoff          `json:"backoff,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
}

func (p *policy) empty() bool {
	return p.MaxAttempts == 0 && p.TimeoutMS == 0 && p.Backoff == nil && len(p.Tags) == 0
}

func (p *policy) timeout() time.Duration { return time.Duration(p.TimeoutMS) * time.Millisecond }

// policyOf reads a job's spec over its queue's settings.
func policyOf(spec []byte, s *settings) (policy, error) {
	var p policy
	if len(spec) > 0 {
		if err := json.Unmarshal(spec, &p); err != nil {
			return p, err
		}
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = s.MaxAttempts
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	if p.TimeoutMS == 0 {
		p.TimeoutMS = s.TimeoutMS
	}
	if p.TimeoutMS == 0 {
		p.TimeoutMS = DefaultTimeout.Milliseconds()
	}
	if p.Backoff == nil {
		p.Backoff = s.Backoff
	}
	if p.Backoff == nil {
		b := DefaultBackoff()
		p.Backoff = &b
	}
	return p, nil
}
