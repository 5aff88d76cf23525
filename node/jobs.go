package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"holdfast/node/client"
	"holdfast/queue"
)

// enqueue is POST /v1/jobs.
func (a *API) enqueue(s Store, w http.ResponseWriter, r *http.Request) error {
	wire, array, err := decodeSpecs(w, r)
	if err != nil {
		return err
	}
	if len(wire) == 0 {
		return invalid("jobs: the array is empty")
	}
	for i := range wire {
		if err := principalOf(r).wantsQueue(wire[i].Queue); err != nil {
			return err
		}
	}
	if err := specHeaders(r, wire, array); err != nil {
		return err
	}
	replicated, err := a.specsDurability(r.Context(), s, wire, array)
	if err != nil {
		return err
	}
	if err := a.roomForMore(); err != nil {
		return err
	}
	specs, err := specsOf(wire, array)
	if err != nil {
		return err
	}
	enqueued, seq, err := s.Enqueue(r.Context(), specs...)
	if err != nil {
		if !array { // to the queue a lone spec is a batch of one
			return renamed(err, outOfBatch)
		}
		return err
	}
	if err := a.settled(r, replicated); err != nil {
		return err
	}
	a.wrote(w, seq)
	status := http.StatusOK
	jobs := make([]client.Enqueued, len(enqueued))
	for i := range enqueued {
		jobs[i] = enqueuedOf(&enqueued[i], &specs[i])
		if !enqueued[i].Duplicate {
			status = http.StatusCreated
		}
	}
	if !array {
		return a.answer(w, status, jobs[0])
	}
	return a.answer(w, status, client.EnqueuedBatch{Jobs: jobs})
}

// job is GET /v1/jobs/{id}: at once, or when the job has ended.
func (a *API) job(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	wait, err := waitOf(r)
	if err != nil {
		return err
	}
	job, err := s.Wait(r.Context(), id, wait)
	if err != nil {
		return noSuchJob(id, err)
	}
	if err := a.still(r); err != nil { // it may have waited for long
		return err
	}
	return a.answer(w, http.StatusOK, principalOf(r).show(&job))
}

// list is GET /v1/jobs.
func (a *API) list(s Store, w http.ResponseWriter, r *http.Request) error {
	filter, err := filterOf(r)
	if err != nil {
		return err
	}
	p := principalOf(r)
	hide := filter.WithPayload && !p.may(scopePayload)
	if filter, err = p.within(filter); err != nil {
		return err
	}
	page, err := boundedPage(r.Context(), s, filter)
	if err != nil {
		return err
	}
	wire := client.Jobs{Jobs: make([]client.Job, len(page.Jobs)), Next: optional(page.Next)}
	for i := range page.Jobs {
		wire.Jobs[i] = p.show(&page.Jobs[i])
		wire.Jobs[i].PayloadHidden = wire.Jobs[i].PayloadHidden || hide
	}
	return a.answer(w, http.StatusOK, wire)
}

// A page of a list ends early when its jobs are large, so that neither side has
// to keep much more than 16 MiB of them in memory.
const (
	fullPageBytes = 8 << 20 // after which no further step is taken
	payloadStep   = 8       // jobs that are read at a time, each of which may have over 1 MiB
	plainStep     = 64      // likewise without payloads, which leaves a result and progress
)

// boundedPage reads a page of a list in small steps, until it is full or large.
func boundedPage(ctx context.Context, s Store, f queue.Filter) (queue.Page, error) {
	left, step := cmp.Or(f.Limit, defaultPage), plainStep
	if f.WithPayload {
		step = payloadStep
	}
	var page queue.Page
	for bytes := 0; ; {
		f.Limit = min(left, step)
		some, err := s.Jobs(ctx, f)
		if err != nil {
			return page, err
		}
		page.Jobs = append(page.Jobs, some.Jobs...)
		page.Next, f.After = some.Next, some.Next
		for i := range some.Jobs {
			bytes += jobBytes(&some.Jobs[i])
		}
		// A short step has looked at as many rows as a page may.
		if left -= len(some.Jobs); left <= 0 || len(some.Jobs) < f.Limit || some.Next == "" || bytes >= fullPageBytes {
			return page, nil
		}
	}
}

// jobBytes is about how much memory a job takes.
func jobBytes(j *queue.Job) int {
	return len(j.Payload) + len(j.Result) + len(j.Progress) + len(j.LastError)
}

// retry is POST /v1/jobs/{id}/retry.
func (a *API) retry(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	var req client.RetryRequest
	if err := decodeOptional(w, r, &req); err != nil {
		return err
	}
	if err := checkNesting("payload", req.Payload); err != nil {
		return err
	}
	ctx := a.audited(r, "job.retry", idOf(id), map[string]any{"new_payload": len(req.Payload) > 0})
	job, seq, err := s.Retry(ctx, id, req.Payload)
	if err != nil {
		return refusal(r.Context(), s, id, err, "only a dead job can be retried")
	}
	return a.answerJob(w, r, &job, seq)
}

// cancel is POST /v1/jobs/{id}/cancel.
func (a *API) cancel(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	if err := decodeNothing(w, r); err != nil {
		return err
	}
	job, seq, err := s.Cancel(a.audited(r, "job.cancel", idOf(id), nil), id)
	if err != nil {
		return refusal(r.Context(), s, id, err, "only a scheduled, queued or running job can be cancelled")
	}
	return a.answerJob(w, r, &job, seq)
}

// archive is POST /v1/jobs/{id}/archive.
func (a *API) archive(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	if err := decodeNothing(w, r); err != nil {
		return err
	}
	job, seq, err := s.Archive(a.audited(r, "job.archive", idOf(id), nil), id)
	if err != nil {
		return refusal(r.Context(), s, id, err, "only a dead job can be archived")
	}
	return a.answerJob(w, r, &job, seq)
}

// deleteJob is DELETE /v1/jobs/{id}.
func (a *API) deleteJob(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	if err := decodeNothing(w, r); err != nil {
		return err
	}
	seq, err := s.Delete(a.audited(r, "job.delete", idOf(id), nil), id)
	if err != nil {
		return refusal(r.Context(), s, id, err, "cancel it first; a running job cannot be deleted")
	}
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, client.Deleted{ID: idOf(id), Deleted: true})
}

func (a *API) answerJob(w http.ResponseWriter, r *http.Request, job *queue.Job, seq queue.Seq) error {
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, principalOf(r).show(job))
}

// noSuchJob puts the id into err if it says that there is no such job.
func noSuchJob(id int64, err error) error {
	if errors.Is(err, queue.ErrNotFound) {
		return &apiError{code: client.CodeNotFound, message: fmt.Sprintf("no such job: %d", id)}
	}
	return err
}

// refusal puts into err the job's present state if the change was refused for
// it, and what is possible.
func refusal(ctx context.Context, s Store, id int64, err error, possible string) error {
	if !errors.Is(err, queue.ErrWrongState) {
		return noSuchJob(id, err)
	}
	job, fault := s.Job(ctx, id)
	if fault != nil {
		return err // which says that much at least
	}
	return &apiError{code: client.CodeWrongState, message: fmt.Sprintf("job %d is %s; %s", id, job.State, possible)}
}
