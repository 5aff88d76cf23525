package node

import (
	"net/http"
	"strings"

	"holdfast/node/client"
	"holdfast/queue"
)

// The ways a run ends or goes on, each for a batch and for one job. In a batch
// an item fails alone, as an error in its result; the single form answers the
// error itself.

// acks is POST /v1/acks.
func (a *API) acks(s Store, w http.ResponseWriter, r *http.Request) error {
	var req client.AckRequest
	if err := decodeBatch(w, r, &req, func() int { return len(req.Acks) }, "acks"); err != nil {
		return err
	}
	if err := a.checkDurability("durability", req.Durability); err != nil {
		return err
	}
	acks, err := each("acks", req.Acks, ackOf)
	if err != nil {
		return err
	}
	results, seq, err := screened(r, s, acks, leaseOfAck, s.Ack)
	if err == nil {
		err = a.resultsSettled(r, s, req.Durability, results)
	}
	return a.answerBatch(w, r, results, seq, err)
}

// ack is POST /v1/jobs/{id}/ack.
func (a *API) ack(s Store, w http.ResponseWriter, r *http.Request) error {
	var item client.Ack
	if err := decodeItem(s, w, r, &item, &item.Lease); err != nil {
		return err
	}
	if err := a.checkDurability("durability", ""); err != nil {
		return err
	}
	ack, err := ackOf(&item)
	if err != nil {
		return err
	}
	results, seq, err := s.Ack(r.Context(), []queue.Ack{ack})
	if err == nil {
		err = a.resultsSettled(r, s, "", results)
	}
	return a.answerItem(s, w, r, item.Lease, results, seq, err)
}

// fails is POST /v1/fails.
func (a *API) fails(s Store, w http.ResponseWriter, r *http.Request) error {
	var req client.FailRequest
	if err := decodeBatch(w, r, &req, func() int { return len(req.Fails) }, "fails"); err != nil {
		return err
	}
	if err := a.checkDurability("durability", req.Durability); err != nil {
		return err
	}
	fails, err := each("fails", req.Fails, failOf)
	if err != nil {
		return err
	}
	results, seq, err := screened(r, s, fails, leaseOfFail, s.Fail)
	if err == nil {
		err = a.resultsSettled(r, s, req.Durability, results)
	}
	return a.answerBatch(w, r, results, seq, err)
}

// failJob is POST /v1/jobs/{id}/fail.
func (a *API) failJob(s Store, w http.ResponseWriter, r *http.Request) error {
	var item client.Fail
	if err := decodeItem(s, w, r, &item, &item.Lease); err != nil {
		return err
	}
	if err := a.checkDurability("durability", ""); err != nil {
		return err
	}
	fail, err := failOf(&item)
	if err != nil {
		return err
	}
	results, seq, err := s.Fail(r.Context(), []queue.Fail{fail})
	if err == nil {
		err = a.resultsSettled(r, s, "", results)
	}
	return a.answerItem(s, w, r, item.Lease, results, seq, err)
}

// releases is POST /v1/releases.
func (a *API) releases(s Store, w http.ResponseWriter, r *http.Request) error {
	var req client.ReleaseRequest
	if err := decodeBatch(w, r, &req, func() int { return len(req.Releases) }, "releases"); err != nil {
		return err
	}
	leases, err := each("releases", req.Releases, releaseOf)
	if err != nil {
		return err
	}
	results, seq, err := screened(r, s, leases, leaseOfRelease, s.Release)
	return a.answerBatch(w, r, results, seq, err)
}

// release is POST /v1/jobs/{id}/release.
func (a *API) release(s Store, w http.ResponseWriter, r *http.Request) error {
	var item client.Release
	if err := decodeItem(s, w, r, &item, &item.Lease); err != nil {
		return err
	}
	results, seq, err := s.Release(r.Context(), []string{item.Lease})
	return a.answerItem(s, w, r, item.Lease, results, seq, err)
}

// snoozes is POST /v1/snoozes.
func (a *API) snoozes(s Store, w http.ResponseWriter, r *http.Request) error {
	var req client.SnoozeRequest
	if err := decodeBatch(w, r, &req, func() int { return len(req.Snoozes) }, "snoozes"); err != nil {
		return err
	}
	snoozes, err := each("snoozes", req.Snoozes, snoozeOf)
	if err != nil {
		return err
	}
	results, seq, err := screened(r, s, snoozes, leaseOfSnooze, s.Snooze)
	return a.answerBatch(w, r, results, seq, err)
}

// snooze is POST /v1/jobs/{id}/snooze.
func (a *API) snooze(s Store, w http.ResponseWriter, r *http.Request) error {
	var item client.Snoozing
	if err := decodeItem(s, w, r, &item, &item.Lease); err != nil {
		return err
	}
	snooze, err := snoozeOf(&item)
	if err != nil {
		return err
	}
	results, seq, err := s.Snooze(r.Context(), []queue.Snooze{snooze})
	return a.answerItem(s, w, r, item.Lease, results, seq, err)
}

// extends is POST /v1/extends.
func (a *API) extends(s Store, w http.ResponseWriter, r *http.Request) error {
	var req client.ExtendRequest
	if err := decodeBatch(w, r, &req, func() int { return len(req.Extends) }, "extends"); err != nil {
		return err
	}
	extends, err := each("extends", req.Extends, extendOf)
	if err != nil {
		return err
	}
	results, seq, err := screened(r, s, extends, leaseOfExtend, s.Extend)
	return a.answerBatch(w, r, results, seq, err)
}

// extend is POST /v1/jobs/{id}/extend.
func (a *API) extend(s Store, w http.ResponseWriter, r *http.Request) error {
	var item client.Extend
	if err := decodeItem(s, w, r, &item, &item.Lease); err != nil {
		return err
	}
	extend, err := extendOf(&item)
	if err != nil {
		return err
	}
	results, seq, err := s.Extend(r.Context(), []queue.Extend{extend})
	return a.answerItem(s, w, r, item.Lease, results, seq, err)
}

// decodeBatch reads a batch; size tells how many items were read. An empty
// one is more likely a misunderstanding than a wish.
func decodeBatch(w http.ResponseWriter, r *http.Request, v any, size func() int, field string) error {
	if err := decode(w, r, v); err != nil {
		return err
	}
	if size() == 0 {
		return &queue.SpecError{Field: field, Reason: "is missing or empty"}
	}
	return nil
}

// decodeItem reads the body of a single form, whose lease must be one of the
// job in the path.
func decodeItem(s Store, w http.ResponseWriter, r *http.Request, v any, lease *string) error {
	id, err := jobID(r)
	if err != nil {
		return err
	}
	if err := decode(w, r, v); err != nil {
		return err
	}
	return checkLease(s, *lease, id)
}

func (a *API) answerBatch(w http.ResponseWriter, r *http.Request, results []queue.Result, seq queue.Seq, err error) error {
	if err != nil {
		return err
	}
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, client.Results{Results: resultsOf(a.publicTo(r), results)})
}

func (a *API) answerItem(s Store, w http.ResponseWriter, r *http.Request, lease string, results []queue.Result, seq queue.Seq, err error) error {
	if err != nil {
		return renamed(err, outOfBatch)
	}
	neverGiven(s, []string{lease}, results)
	a.wrote(w, seq)
	if err := results[0].Err; err != nil {
		return err
	}
	return a.answer(w, http.StatusOK, resultOf(a.publicTo(r), &results[0]))
}

// outOfBatch makes "result" of "acks[0].result": to the queue an item is a
// batch of one.
func outOfBatch(field string) string {
	if _, name, found := strings.Cut(field, "]."); found {
		return name
	}
	return field
}
