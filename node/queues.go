package node

import (
	"context"
	"errors"
	"net/http"
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
	return queue.Info{}, &queue.NoQueueError{Queue: name}
}

// meant adds to err, if it says that there is no such queue, which of those that
// who makes r may see was probably meant.
func (a *API) meant(r *http.Request, err error) error {
	none, ok := errors.AsType[*queue.NoQueueError](err)
	p, s := principalOf(r), a.storeFor(r)
	if !ok || s == nil || !p.may(scopeView) {
		return err
	}
	infos, fault := s.Queues(r.Context())
	if fault != nil {
		return err // which says that much at least
	}
	var names []string
	for i := range infos {
		if p.covers(infos[i].Name) {
			names = append(names, infos[i].Name)
		}
	}
	return &apiError{code: client.CodeNotFound, message: NoQueueText(none.Queue, names)}
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
