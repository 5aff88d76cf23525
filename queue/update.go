package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Settings are what holds for the jobs of a queue, unless a job has wishes of
// its own.
type Settings struct {
	MaxAttempts int
	Timeout     time.Duration // of a run
	Lease       time.Duration
	Backoff     Backoff
	MaxDepth    int64 // queued and scheduled jobs above which Enqueue answers ErrQueueFull; 0: no limit
	Retention   map[State]Retention
	// Durability is for who answers for the queue's writes; the queue itself
	// keeps it and does nothing with it. Empty: not set.
	Durability string
}

// Retention says which jobs of a final state are kept. Both bounds hold.
type Retention struct {
	Age  time.Duration // 0: DefaultRetention, for dead jobs for ever; negative: for ever
	Last int64         // so many, the latest; archived jobs do not count. 0: any number
}

// Patch changes a queue's settings. What is nil stays as it is; a zero value
// goes back to the default.
type Patch struct {
	Create      bool // make the queue if there is none of the name yet
	Paused      *bool
	MaxAttempts *int
	Timeout     *time.Duration
	Lease       *time.Duration
	Backoff     *Backoff // with an empty Kind: the default
	MaxDepth    *int64
	Retention   map[State]Retention // of the states that it names
	Durability  *string             // "local" or "replicated"
}

// Validate returns a *SpecError that names what is wrong.
func (p *Patch) Validate() error {
	bad := func(field, reason string, args ...any) error {
		return &SpecError{field, fmt.Sprintf(reason, args...)}
	}
	switch {
	case p.MaxAttempts != nil && (*p.MaxAttempts < 0 || *p.MaxAttempts > MaxAttempts):
		return bad("max_attempts", "must be from 1 to %d, or 0 for the default", MaxAttempts)
	case p.Timeout != nil && !validTimeout(*p.Timeout):
		return bad("timeout_ms", "must be from 1 to %d, or 0 for the default", MaxTimeout.Milliseconds())
	case p.MaxDepth != nil && *p.MaxDepth < 0:
		return bad("max_depth", "must be above 0, or 0 for no limit")
	case p.Durability != nil && *p.Durability != "" && *p.Durability != "local" && *p.Durability != "replicated":
		return bad("durability", "must be local or replicated")
	case p.Lease != nil && *p.Lease != 0 && (*p.Lease < MinLease || *p.Lease > MaxLease):
		return bad("lease_ms", "must be from %d to %d, or 0 for the default", MinLease.Milliseconds(), MaxLease.Milliseconds())
	}
	if p.Backoff != nil && p.Backoff.Kind != "" {
		if err := p.Backoff.Validate(); err != nil {
			return err
		}
	}
	for state, r := range p.Retention {
		switch {
		case !state.Final():
			return bad("retention", "%s is no final state: use done, dead or cancelled", state)
		case r.Age > 0 && r.Age < time.Millisecond || r.Age > MaxDelay:
			return bad("retention."+state.String(), "the age must be from 1 to %d, 0 for the default, or negative for ever", MaxDelay.Milliseconds())
		case r.Last < 0:
			return bad("retention."+state.String(), "the number must be above 0, or 0 for any")
		}
	}
	return nil
}

// apply returns s changed; s itself stays as it is.
func (p *Patch) apply(s settings) settings {
	if p.Paused != nil {
		s.Paused = *p.Paused
	}
	if p.MaxAttempts != nil {
		s.MaxAttempts = *p.MaxAttempts
	}
	if p.Timeout != nil {
		s.TimeoutMS = p.Timeout.Milliseconds()
	}
	if p.Lease != nil {
		s.LeaseMS = p.Lease.Milliseconds()
	}
	if p.MaxDepth != nil {
		s.MaxDepth = *p.MaxDepth
	}
	if p.Durability != nil {
		s.Durability = *p.Durability
	}
	if p.Backoff != nil {
		s.Backoff = storedBackoff(p.Backoff)
		if p.Backoff.Kind == "" {
			s.Backoff = nil
		}
	}
	s.Keep = maps.Clone(s.Keep)
	for state, r := range p.Retention {
		k := keep{AgeMS: r.Age.Milliseconds(), Last: r.Last}
		if r.Age < 0 {
			k.AgeMS = -1
		}
		if s.Keep == nil {
			s.Keep = map[string]keep{}
		}
		s.Keep[state.String()] = k
	}
	return s
}

// public shows what holds, the defaults filled in.
func (s *settings) public() Settings {
	p := policyOf(nil, s)
	out := Settings{
		MaxAttempts: p.MaxAttempts, Timeout: p.Timeout, Lease: s.lease(), Backoff: p.Backoff,
		MaxDepth: s.MaxDepth, Durability: s.Durability, Retention: map[State]Retention{},
	}
	for _, state := range finalStates {
		k := s.retention(state)
		out.Retention[state] = Retention{Age: millis(k.AgeMS), Last: k.Last}
	}
	return out
}

// UpdateQueue changes the settings of a queue and returns it as it is then.
// They hold for the jobs that are there too, from the next claim, failure or
// extend on. Jobs of a paused queue are not handed out; what runs goes on, and
// Enqueue too.
//
// Errors: ErrNoQueue, *SpecError, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) UpdateQueue(ctx context.Context, name string, p Patch) (Info, Seq, error) {
	if err := p.Validate(); err != nil {
		return Info{}, Seq{}, err
	}
	if err := validName("queue", name); err != nil {
		return Info{}, Seq{}, err
	}
	o := &op{admin: func(r *round) error { return r.updateQueue(name, &p) }}
	if err := q.do(ctx, o); err != nil {
		return Info{}, Seq{}, err
	}
	infos, err := q.queues(ctx, name)
	if err != nil {
		return Info{}, Seq{}, err
	}
	return infos[0], q.seq(o), nil
}

func (r *round) updateQueue(name string, p *Patch) error {
	q := r.w.names.queues[name]
	if q == nil {
		if !p.Create {
			return &NoQueueError{name}
		}
		var err error
		if q, err = r.queue(name); err != nil {
			return err
		}
	}
	before := q.settings
	after := p.apply(before)
	text, err := json.Marshal(&after)
	if err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	if _, err := r.w.st.setSettings.Exec(string(text), q.id); err != nil {
		return err
	}
	q.settings = after
	r.undo = append(r.undo, func() { q.settings = before })
	r.dirty = true
	r.next.retention = min(r.next.retention, r.now.mono)
	return nil
}
