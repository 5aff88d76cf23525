package node

import (
	"context"
	"errors"
	"net/http"

	"holdfast/node/client"
	"holdfast/queue"
)

// bulk is RetryDead or ArchiveDead of a store.
type bulk func(ctx context.Context, f queue.Filter, dryRun bool) (queue.Bulk, queue.Seq, error)

// retryDead is POST /v1/dead/retry.
func (a *API) retryDead(s Store, w http.ResponseWriter, r *http.Request) error {
	return a.changeDead(s.RetryDead, "dead.retry", w, r)
}

// archiveDead is POST /v1/dead/archive.
func (a *API) archiveDead(s Store, w http.ResponseWriter, r *http.Request) error {
	return a.changeDead(s.ArchiveDead, "dead.archive", w, r)
}

func (a *API) changeDead(do bulk, action string, w http.ResponseWriter, r *http.Request) error {
	var req client.DeadRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	if req.Limit < 0 || req.Limit > queue.MaxPage {
		return invalid("limit: must be from 1 to %d, or 0 for %d; got %d", queue.MaxPage, defaultPage, req.Limit)
	}
	filter := queue.Filter{Queue: req.Queue, Type: req.Type, Tag: req.Tag, ErrorFP: req.Error, After: req.After, Limit: req.Limit}
	err := diedWithin(&filter, req.SinceMS, req.BeforeMS)
	if err != nil {
		return err
	}
	if filter, err = principalOf(r).within(filter); err != nil {
		return err
	}
	step, seq, err := do(a.audited(r, action, req.Queue, &req), filter, req.DryRun)
	if err != nil {
		return err
	}
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, client.DeadStep{Count: step.Count, Next: optional(step.Next)})
}

// diedWithin narrows a filter to a time; 0 is no bound.
func diedWithin(f *queue.Filter, sinceMS, beforeMS int64) error {
	for field, ms := range map[string]int64{"since_ms": sinceMS, "before_ms": beforeMS} {
		if ms < 0 {
			return invalid("%s: must be a time in Unix milliseconds; got %d", field, ms)
		}
	}
	f.FinishedSince, f.FinishedBefore = instant(sinceMS), instant(beforeMS)
	return nil
}

// DeadGrouper is a [Store] that counts dead jobs by kind of error.
type DeadGrouper interface {
	DeadGroups(ctx context.Context, f queue.Filter) (queue.DeadGroups, error)
}

var (
	_ DeadGrouper = (*queue.Queue)(nil)
	_ DeadGrouper = (*edgeStore)(nil)
)

func deadGroups(ctx context.Context, s Store, f queue.Filter) (queue.DeadGroups, error) {
	grouper, ok := s.(DeadGrouper)
	if !ok {
		return queue.DeadGroups{}, errors.New("the store does not group dead jobs")
	}
	return grouper.DeadGroups(ctx, f)
}

// groupParams are the query parameters of GET /v1/dead/groups.
var groupParams = []string{"queue", "type", "tag", "error", "since_ms", "before_ms", "limit"}

// deadGroups is GET /v1/dead/groups.
func (a *API) deadGroups(s Store, w http.ResponseWriter, r *http.Request) error {
	filter, err := filterOf(r)
	if err != nil {
		return err
	}
	since, err := numberOf(r.URL.Query(), "since_ms")
	if err != nil {
		return err
	}
	before, err := numberOf(r.URL.Query(), "before_ms")
	if err != nil {
		return err
	}
	if err := diedWithin(&filter, since, before); err != nil {
		return err
	}
	p := principalOf(r)
	if filter, err = p.within(filter); err != nil {
		return err
	}
	found, err := deadGroups(r.Context(), s, filter)
	if err != nil {
		return err
	}
	wire := client.DeadGroups{Groups: make([]client.DeadGroup, len(found.Groups)), Kinds: found.Kinds, Total: found.Total, Partial: found.Partial}
	for i := range found.Groups {
		g := &found.Groups[i]
		wire.Groups[i] = client.DeadGroup{Queue: g.Queue, ErrorFP: g.ErrorFP, Jobs: g.Jobs, Sample: p.show(&g.Sample)}
	}
	return a.answer(w, http.StatusOK, wire)
}
