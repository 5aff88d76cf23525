package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// replicatedTimeout is how long an answer waits for its upload. What takes
// longer is of unknown outcome, and the client may send it again.
const replicatedTimeout = 20 * time.Second

// durability reads a request's wish: whether its answer has to wait until the
// change is in object storage. Empty is the default of the queue, or else of
// the node.
func (a *API) durability(field, value, ofQueue string) (replicated bool, err error) {
	value = cmp.Or(value, ofQueue, a.durable)
	switch value {
	case replicate.DurabilityLocal:
		return false, nil
	case replicate.DurabilityReplicated:
		if r := a.replica.Load(); r != nil && (*r).CanReplicate() {
			return true, nil
		}
		return false, &apiError{
			code:    client.CodeReplicatedUnavailable,
			message: field + ": this node has no remote replica that keeps two nodes apart; use local, which means committed and on this node's disk, or give the node a bucket (litestream.yml, holdfast init)",
		}
	}
	return false, &queue.SpecError{Field: field, Reason: fmt.Sprintf("must be local or replicated; got %.40q", value)}
}

// checkDurability refuses a wish that cannot be fulfilled, before anything is
// done.
func (a *API) checkDurability(field, value string) error {
	_, err := a.durability(field, value, "")
	return err
}

// specsDurability is durability for specs. One that wants it makes all wait:
// they share a commit.
func (a *API) specsDurability(ctx context.Context, s Store, specs []client.Spec, array bool) (replicated bool, err error) {
	queues, err := a.settings.durabilities(ctx, s)
	if err != nil {
		return false, err
	}
	for i := range specs {
		field := "durability"
		if array {
			field = fmt.Sprintf("jobs[%d].durability", i)
		}
		want, err := a.durability(field, specs[i].Durability, queues[specs[i].Queue])
		if err != nil {
			return false, err
		}
		replicated = replicated || want
	}
	return replicated, nil
}

// resultsSettled waits as the request, or else the queues of the jobs, or else
// the node wants it.
func (a *API) resultsSettled(r *http.Request, s Store, wish string, results []queue.Result) error {
	replicated, err := a.resultsDurability(r.Context(), s, wish, results)
	if err != nil {
		return err
	}
	return a.settled(r, replicated)
}

func (a *API) resultsDurability(ctx context.Context, s Store, wish string, results []queue.Result) (bool, error) {
	queues, err := a.settings.durabilities(ctx, s)
	if err != nil {
		return false, err
	}
	if wish != "" || len(queues) == 0 {
		return a.durability("durability", wish, "")
	}
	for i := range results {
		if results[i].Err != nil {
			continue
		}
		// It is done already: what the queue wants and this node cannot give, since
		// it has another replica than when that was set, is not waited for.
		if want, err := a.durability("durability", "", queues[results[i].Queue]); err == nil && want {
			return true, nil
		}
	}
	return false, nil
}

// settled waits until what the store has done is where the request wants it.
func (a *API) settled(r *http.Request, replicated bool) error {
	if !replicated {
		return nil
	}
	replica := a.replica.Load()
	if replica == nil { // shut since
		return errLost
	}
	ctx, cancel := context.WithTimeout(r.Context(), replicatedTimeout)
	defer cancel()
	err := (*replica).Replicated(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, replicate.ErrFenced):
		return errLost
	}
	a.log.Warn("not replicated in time", "err", err)
	return &apiError{
		code:    client.CodeUnknownOutcome,
		message: "committed on this node, but its upload to object storage failed or took too long: it may or may not survive the loss of this machine; send it again with the same idempotency key",
	}
}

// roomForMore refuses new jobs while too much is on this disk only.
func (a *API) roomForMore() error {
	if a.maxAge <= 0 {
		return nil
	}
	st, ok := a.status()
	if lag := st.Lag(time.Now()); ok && lag > a.maxAge {
		return &apiError{
			code:    client.CodeReplicationBehind,
			message: fmt.Sprintf("new jobs are refused: what was committed in the last %s is on this node's disk only, and max_unreplicated_age is %s", lag.Round(time.Second), a.maxAge),
		}
	}
	return nil
}
