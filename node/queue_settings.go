package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// settings knows what the queues' durabilities are, so that an enqueue need not
// ask: they change by updates through it alone, as long as the store is open.
type settings struct {
	mu         sync.Mutex
	known      bool
	durability map[string]string // of the queues that have one; never changed, only replaced
}

// forget is for another store.
func (m *settings) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.durability = false, nil
}

// durabilities returns those of the queues that have one.
func (m *settings) durabilities(ctx context.Context, s Store) (map[string]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known {
		return m.durability, nil
	}
	infos, err := s.Queues(ctx)
	if err != nil {
		return nil, err
	}
	m.read(infos)
	return m.durability, nil
}

func (m *settings) read(infos []queue.Info) {
	m.known, m.durability = true, map[string]string{}
	for i := range infos {
		if d := infos[i].Settings.Durability; d != "" {
			m.durability[infos[i].Name] = d
		}
	}
}

// update changes a queue. Updates are one after the other: retention, whose
// two halves are one setting to the queue, is read and written.
func (m *settings) update(ctx context.Context, s Store, name string, patch queue.Patch, wire *client.QueuePatch) (queue.Info, queue.Seq, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if len(wire.RetentionMS)+len(wire.KeepLast) > 0 {
		if patch.Retention, err = retention(ctx, s, name, wire); err != nil {
			return queue.Info{}, queue.Seq{}, err
		}
	}
	m.known = false // also when the outcome is not known
	info, seq, err := s.UpdateQueue(ctx, name, patch)
	return info, seq, err
}

// retention is what a patch makes of a queue's.
func retention(ctx context.Context, s Store, name string, wire *client.QueuePatch) (map[queue.State]queue.Retention, error) {
	out := map[queue.State]queue.Retention{}
	info, err := queueNamed(ctx, s, name)
	if err != nil && !(wire.Create && errors.Is(err, queue.ErrNoQueue)) {
		return nil, err
	}
	now := func(state queue.State) queue.Retention {
		if r, ok := out[state]; ok {
			return r
		}
		r := info.Settings.Retention[state]
		if r.Age == defaultAge(state) {
			r.Age = 0
		}
		return r
	}
	for text, ms := range wire.RetentionMS {
		state, err := finalState("retention_ms", text)
		if err != nil {
			return nil, err
		}
		r := now(state)
		switch {
		case ms == nil:
			r.Age = 0
		case *ms == -1:
			r.Age = -time.Millisecond
		default:
			if r.Age, err = millis("retention_ms."+text, *ms, 0, queue.MaxDelay); err != nil {
				return nil, &queue.SpecError{
					Field:  "retention_ms." + text,
					Reason: fmt.Sprintf("must be from 1 to %d, -1 for ever, or null for the default; got %d", queue.MaxDelay.Milliseconds(), *ms),
				}
			}
		}
		out[state] = r
	}
	for text, n := range wire.KeepLast {
		state, err := finalState("keep_last", text)
		if err != nil {
			return nil, err
		}
		r := now(state)
		r.Last = 0
		if n != nil {
			r.Last = *n
		}
		if r.Last < 0 {
			return nil, &queue.SpecError{Field: "keep_last." + text, Reason: fmt.Sprintf("must be from 1, or null for any number; got %d", r.Last)}
		}
		out[state] = r
	}
	return out, nil
}

var finalStates = []queue.State{queue.StateDone, queue.StateDead, queue.StateCancelled}

func finalState(field, text string) (queue.State, error) {
	for _, s := range finalStates {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, invalid("%s: %.40q is not a state in which a job ends: use done, dead or cancelled", field, text)
}

// defaultAge is how long jobs are kept in a queue without settings.
func defaultAge(s queue.State) time.Duration {
	if s == queue.StateDead {
		return -time.Millisecond
	}
	return queue.DefaultRetention
}

// nulls puts a zero value, which goes back to the default, where the body has
// null: to the decoder that is the same as an absent field.
func nulls(body []byte, wire *client.QueuePatch) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return invalid("the body does not have the expected form")
	}
	for name, value := range members {
		if !bytes.Equal(value, []byte("null")) {
			continue
		}
		switch strings.ToLower(name) {
		case "max_attempts":
			wire.MaxAttempts = new(int)
		case "timeout_ms":
			wire.TimeoutMS = new(int64)
		case "lease_ms":
			wire.LeaseMS = new(int64)
		case "backoff":
			wire.Backoff = new(client.Backoff)
		case "durability":
			wire.Durability = new(string)
		case "max_depth":
			wire.MaxDepth = new(int64)
		case "retention_ms":
			wire.RetentionMS = noneOfEach()
		case "keep_last":
			wire.KeepLast = noneOfEach()
		}
	}
	return nil
}

func noneOfEach() map[string]*int64 {
	out := map[string]*int64{}
	for _, s := range finalStates {
		out[s.String()] = nil
	}
	return out
}

// patchOf converts all but retention.
func patchOf(wire *client.QueuePatch) (queue.Patch, error) {
	patch := queue.Patch{Create: wire.Create, MaxAttempts: wire.MaxAttempts, MaxDepth: wire.MaxDepth, Durability: wire.Durability}
	var err error
	if wire.TimeoutMS != nil {
		patch.Timeout = new(time.Duration)
		if *patch.Timeout, err = millis("timeout_ms", *wire.TimeoutMS, 0, queue.MaxTimeout); err != nil {
			return patch, err
		}
	}
	if wire.LeaseMS != nil {
		patch.Lease = new(time.Duration)
		if *patch.Lease, err = leaseTime("lease_ms", *wire.LeaseMS); err != nil {
			return patch, err
		}
	}
	patch.Backoff, err = backoffOf(wire.Backoff)
	return patch, err
}

// settingsOf are all settings of a queue.
func settingsOf(s queue.Settings) client.QueueSettings {
	wire := client.QueueSettings{
		MaxAttempts: s.MaxAttempts, TimeoutMS: s.Timeout.Milliseconds(), LeaseMS: s.Lease.Milliseconds(),
		Backoff: wireBackoff(s.Backoff), Durability: s.Durability, MaxDepth: s.MaxDepth,
	}
	for state, r := range s.Retention {
		keep(&wire.RetentionMS, state, max(r.Age.Milliseconds(), -1))
		if r.Last != 0 {
			keep(&wire.KeepLast, state, r.Last)
		}
	}
	return wire
}

// ownSettings are those that differ from the default, or nil.
func ownSettings(s queue.Settings) *client.QueueSettings {
	wire := settingsOf(s)
	byDefault := queue.DefaultBackoff()
	if s.MaxAttempts == queue.DefaultMaxAttempts {
		wire.MaxAttempts = 0
	}
	if s.Timeout == queue.DefaultTimeout {
		wire.TimeoutMS = 0
	}
	if s.Lease == queue.DefaultLease {
		wire.LeaseMS = 0
	}
	if b := s.Backoff; b.Kind == byDefault.Kind && b.Base == byDefault.Base && b.Max == byDefault.Max && slices.Equal(b.Delays, byDefault.Delays) {
		wire.Backoff = nil
	}
	for state, r := range s.Retention {
		if r.Age == defaultAge(state) {
			delete(wire.RetentionMS, state.String())
		}
	}
	if wire.MaxAttempts == 0 && wire.TimeoutMS == 0 && wire.LeaseMS == 0 && wire.Backoff == nil && wire.Durability == "" && wire.MaxDepth == 0 &&
		len(wire.RetentionMS)+len(wire.KeepLast) == 0 {
		return nil
	}
	return &wire
}

func keep(m *map[string]int64, state queue.State, n int64) {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[state.String()] = n
}
