package node

import (
	"context"
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
	for field, ms := range map[string]int64{"since_ms": req.SinceMS, "before_ms": req.BeforeMS} {
		if ms < 0 {
			return invalid("%s: must be a time in Unix milliseconds; got %d", field, ms)
		}
	}
	filter, err := principalOf(r).within(queue.Filter{
		Queue: req.Queue, Type: req.Type, Tag: req.Tag, ErrorFP: req.Error, After: req.After, Limit: req.Limit,
		FinishedSince: instant(req.SinceMS), FinishedBefore: instant(req.BeforeMS),
	})
	if err != nil {
		return err
	}
	step, seq, err := do(a.audited(r, action, req.Queue, &req), filter, req.DryRun)
	if err != nil {
		return err
	}
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, client.DeadStep{Count: step.Count, Next: optional(step.Next)})
}
