package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// queues is GET /v1/queues.
func (a *API) queues(s Store, w http.ResponseWriter, r *http.Request) error {
	infos, err := s.Queues(r.Context())
	if err != nil {
		return err
	}
	p := principalOf(r)
	wire := client.Queues{Queues: make([]client.Queue, 0, len(infos))}
	for i := range infos {
		if p.covers(infos[i].Name) {
			one := queueOf(&infos[i])
			one.Settings = ownSettings(infos[i].Settings)
			wire.Queues = append(wire.Queues, one)
		}
	}
	return a.answer(w, http.StatusOK, wire)
}

// queue is GET /v1/queues/{queue}.
func (a *API) queue(s Store, w http.ResponseWriter, r *http.Request) error {
	info, err := queueNamed(r.Context(), s, r.PathValue("queue"))
	if err != nil {
		return err
	}
	return a.answer(w, http.StatusOK, a.wholeQueue(&info))
}

// wholeQueue is a queue with all settings that are in force.
func (a *API) wholeQueue(info *queue.Info) client.Queue {
	wire := queueOf(info)
	wire.OwnSettings = ownSettings(info.Settings)
	settings := settingsOf(info.Settings)
	if settings.Durability == "" {
		settings.Durability = a.durable
	}
	wire.Settings = &settings
	return wire
}

func queueNamed(ctx context.Context, s Store, name string) (queue.Info, error) {
	infos, err := s.Queues(ctx)
	if err != nil {
		return queue.Info{}, err
	}
	for i := range infos {
		if infos[i].Name == name {
			return infos[i], nil
		}
	}
	return queue.Info{}, queue.ErrNoQueue
}

// patchQueue is PATCH /v1/queues/{queue}.
func (a *API) patchQueue(s Store, w http.ResponseWriter, r *http.Request) error {
	var wire client.QueuePatch
	if err := withBody(w, r, func(body []byte) error {
		if err := unmarshal(body, &wire, ""); err != nil {
			return err
		}
		return nulls(body, &wire)
	}); err != nil {
		return err
	}
	patch, err := patchOf(&wire)
	if err != nil {
		return err
	}
	if patch.Durability != nil && *patch.Durability != "" {
		if err := a.checkDurability("durability", *patch.Durability); err != nil {
			return err
		}
	}
	return a.updateQueue(s, w, r, "queue.update", patch, &wire)
}

// pause is POST /v1/queues/{queue}/pause.
func (a *API) pause(s Store, w http.ResponseWriter, r *http.Request) error {
	return a.setPaused(s, w, r, true)
}

// resume is POST /v1/queues/{queue}/resume.
func (a *API) resume(s Store, w http.ResponseWriter, r *http.Request) error {
	return a.setPaused(s, w, r, false)
}

func (a *API) setPaused(s Store, w http.ResponseWriter, r *http.Request, paused bool) error {
	if err := decodeNothing(w, r); err != nil {
		return err
	}
	action := "queue.resume"
	if paused {
		action = "queue.pause"
	}
	return a.updateQueue(s, w, r, action, queue.Patch{Paused: &paused}, nil)
}

func (a *API) updateQueue(s Store, w http.ResponseWriter, r *http.Request, action string, patch queue.Patch, wire *client.QueuePatch) error {
	var detail any
	if wire == nil {
		wire = &client.QueuePatch{}
	} else {
		detail = wire
	}
	name := r.PathValue("queue")
	info, seq, err := a.settings.update(a.audited(r, action, name, detail), s, name, patch, wire)
	if err != nil {
		return err
	}
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, a.wholeQueue(&info))
}

// throughput is GET /v1/queues/{queue}/throughput.
func (a *API) throughput(s Store, w http.ResponseWriter, r *http.Request) error {
	since, err := numberOf(r.URL.Query(), "since_ms")
	if err != nil {
		return err
	}
	info, err := queueNamed(r.Context(), s, r.PathValue("queue"))
	if err != nil {
		return err
	}
	minutes, err := s.Throughput(r.Context(), info.Name, time.UnixMilli(since))
	if err != nil {
		return err
	}
	wire := client.Throughput{Minutes: make([]client.Minute, len(minutes))}
	for i, m := range minutes {
		wire.Minutes[i] = client.Minute{AtMS: m.At.UnixMilli(), Enqueued: m.Enqueued, Done: m.Done, Failed: m.Failed, Dead: m.Dead}
	}
	return a.answer(w, http.StatusOK, wire)
}

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

func queueOf(info *queue.Info) client.Queue {
	return client.Queue{
		Name:   info.Name,
		Paused: info.Paused,
		Counts: client.Counts{
			Scheduled: info.Counts.Scheduled,
			Queued:    info.Counts.Queued,
			Running:   info.Counts.Running,
			Done:      info.Counts.Done,
			Dead:      info.Counts.Dead,
			Cancelled: info.Counts.Cancelled,
		},
		OldestQueuedAtMS: optionalMS(info.OldestAt),
	}
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
