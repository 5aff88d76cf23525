package node

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// releaseTimeout bounds giving jobs back after their claimer hung up.
const releaseTimeout = 10 * time.Second

// claim is POST /v1/claims.
func (a *API) claim(s Store, w http.ResponseWriter, r *http.Request) error {
	var wire client.ClaimRequest
	if err := decode(w, r, &wire); err != nil {
		return err
	}
	req, err := claimOf(&wire)
	if err != nil {
		return err
	}
	for _, name := range req.Queues {
		if err := principalOf(r).wantsQueue(name); err != nil {
			return err
		}
	}
	acks, err := newScreen(r, s, req.Acks, leaseOfAck)
	if err != nil {
		return err
	}
	fails, err := newScreen(r, s, req.Fails, leaseOfFail)
	if err != nil {
		return err
	}
	if len(req.Acks)+len(req.Fails) > 0 {
		if err := a.checkDurability("durability", ""); err != nil {
			return err
		}
	}
	claims, seq, err := s.Claim(r.Context(), req)
	if err != nil {
		return err
	}
	if err := a.still(r); err != nil { // it may have waited for long
		if len(claims.Jobs) > 0 {
			a.giveBack(r, s, claims.Jobs)
		}
		return err
	}
	acks.correct(s, claims.Acks)
	fails.correct(s, claims.Fails)
	if carried := slices.Concat(claims.Acks, claims.Fails); len(carried) > 0 {
		if err := a.resultsSettled(r, s, "", carried); err != nil {
			if len(claims.Jobs) > 0 {
				a.giveBack(r, s, claims.Jobs)
			}
			return err
		}
	}
	a.wrote(w, seq)
	if len(claims.Jobs) == 0 {
		wire := claimsOf(a.publicTo(r), &claims)
		wire.Stopping = a.stopping.Load() // then the wait was cut short
		return a.answer(w, http.StatusOK, wire)
	}
	if err := a.handOut(w, r, &claims); err != nil {
		a.giveBack(r, s, claims.Jobs)
		return err
	}
	return nil
}

// handOut answers with jobs, and returns an error unless the answer was handed
// to the network as a whole. It does not look at the context after that: a
// client may hang up once it has read its answer, with the jobs in its hands.
func (a *API) handOut(w http.ResponseWriter, r *http.Request, claims *queue.Claims) error {
	if r.Context().Err() != nil {
		return errHungUp
	}
	if err := a.answer(w, http.StatusOK, claimsOf(a.publicTo(r), claims)); err != nil {
		return err
	}
	// A small answer is still in the server's buffer, where a broken
	// connection would be found only after the handler.
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errHungUp, err)
	}
	return nil
}

// giveBack releases jobs whose claimer is gone, so that they do not wait for
// the end of a lease that no one holds.
func (a *API) giveBack(r *http.Request, s Store, jobs []queue.Claimed) {
	// The request's context has ended, or is about to.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTimeout)
	defer cancel()
	leases := make([]string, len(jobs))
	for i := range jobs {
		leases[i] = jobs[i].Lease
	}
	_, _, err := s.Release(ctx, leases)
	if err != nil {
		a.log.Warn("jobs of a client that hung up stay leased", "job", jobs[0].ID, "count", len(jobs), "err", err)
		return
	}
	a.log.Debug("jobs of a client that hung up released", "job", jobs[0].ID, "count", len(jobs))
}
