package node

import (
	"fmt"
	"time"

	"holdfast/node/client"
	"holdfast/replicate"
)

// followStatus asks how far the copy is that a standby keeps.
type followStatus func() replicate.FollowStatus

// Follow makes the API of a standby tell how far its copy is, until it is open.
func (a *API) Follow(status func() replicate.FollowStatus) {
	ask := followStatus(status)
	a.follows.Store(&ask)
}

// following is how far a standby's copy is; nil: this is none that follows.
func (a *API) following(now time.Time) *client.Follows {
	ask := a.follows.Load()
	if ask == nil {
		return nil
	}
	st := (*ask)()
	wire := &client.Follows{Epoch: st.Epoch, TXID: txidText(st.TXID), NewestTXID: txidText(st.Newest), AsOfMS: optionalMS(st.AsOf)}
	if !st.AsOf.IsZero() {
		lag := st.Lag(now).Milliseconds()
		wire.LagMS = &lag
	}
	if st.Problem != "" {
		wire.Problem = &st.Problem
	}
	return wire
}

// followReason is what /readyz says of a standby's copy; empty: nothing.
func (a *API) followReason(now time.Time) string {
	f := a.following(now)
	switch {
	case f == nil:
		return ""
	case f.Epoch == 0 && f.Problem != nil:
		return "it has no copy of the database yet: " + *f.Problem
	case f.Epoch == 0:
		return "it has no copy of the database yet"
	}
	s := fmt.Sprintf("its copy has epoch %d up to TXID %s of %s", f.Epoch, f.TXID, f.NewestTXID)
	if f.Problem != nil {
		s += ", and is held up: " + *f.Problem
	}
	return s
}
