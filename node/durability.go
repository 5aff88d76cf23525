package node

import (
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
// change is in object storage. Empty is the node's default.
func (a *API) durability(field, value string) (replicated bool, err error) {
	if value == "" {
		value = a.durable
	}
	switch value {
	case replicate.DurabilityLocal:
		return false, nil
	case replicate.DurabilityReplicated:
		if r := a.replica.Load(); r != nil && (*r).CanReplicate() {
			return true, nil
		}
		return false, &apiError{
			code:    client.CodeReplicatedUnavailable,
			message: field + ": this node has no remote replica that keeps two nodes apart; use local, which means committed and on this node's disk",
		}
	}
	return false, &queue.SpecError{Field: field, Reason: fmt.Sprintf("must be local or replicated; got %.40q", value)}
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
