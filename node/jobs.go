package node

import (
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
		field := "durability"
		if array {
			field = fmt.Sprintf("jobs[%d].durability", i)
		}
		if err := checkDurability(field, wire[i].Durability); err != nil {
			return err
		}
	}
	specs, err := specsOf(wire, array)
	if err != nil {
		return err
	}
	enqueued, seq, err := s.Enqueue(r.Context(), specs...)
	if err != nil {
		if array && len(specs) == 1 {
			// The queue does not see that a lone spec came in an array.
			return renamed(err, func(field string) string { return "jobs[0]." + field })
		}
		return err
	}
	setSeq(w, seq)
	status := http.StatusOK
	jobs := make([]client.Enqueued, len(enqueued))
	for i := range enqueued {
		jobs[i] = enqueuedOf(&enqueued[i], &specs[i])
		if !enqueued[i].Duplicate {
			status = http.StatusCreated
		}
	}
	if !array {
		return answer(w, status, jobs[0])
	}
	return answer(w, status, client.EnqueuedBatch{Jobs: jobs})
}

// job is GET /v1/jobs/{id}.
func (a *API) job(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	job, err := s.Job(r.Context(), id)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, jobOf(&job))
}

// list is GET /v1/jobs.
func (a *API) list(s Store, w http.ResponseWriter, r *http.Request) error {
	filter, err := filterOf(r)
	if err != nil {
		return err
	}
	page, err := s.Jobs(r.Context(), filter)
	if errors.Is(err, queue.ErrNotFound) {
		return noSuchQueue() // a list names no job
	}
	if err != nil {
		return err
	}
	wire := client.Jobs{Jobs: make([]client.Job, len(page.Jobs)), Next: optional(page.Next)}
	for i := range page.Jobs {
		wire.Jobs[i] = jobOf(&page.Jobs[i])
	}
	return answer(w, http.StatusOK, wire)
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
	job, seq, err := s.Retry(r.Context(), id, req.Payload)
	return answerJob(w, &job, seq, err)
}

// cancel is POST /v1/jobs/{id}/cancel.
func (a *API) cancel(s Store, w http.ResponseWriter, r *http.Request) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	var none struct{}
	if err := decodeOptional(w, r, &none); err != nil {
		return err
	}
	job, seq, err := s.Cancel(r.Context(), id)
	return answerJob(w, &job, seq, err)
}

func answerJob(w http.ResponseWriter, job *queue.Job, seq queue.Seq, err error) error {
	if err != nil {
		return err
	}
	setSeq(w, seq)
	return answer(w, http.StatusOK, jobOf(job))
}
