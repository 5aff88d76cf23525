package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"holdfast/node/client"
	"holdfast/replicate"
)

const (
	// handoverGrace is how long requests under way may hold a handover up. Those
	// that wait for something are answered at once.
	handoverGrace = 2 * time.Second
	// handoverWait is how long the answer to POST /v1/handover may take. The
	// server cuts off what takes twice as long.
	handoverWait = time.Minute
)

// errHandedOver ends the reign of a node that made way for another.
var errHandedOver = errors.New("this node handed over")

// handover is a request to make way. Its fields but done belong to work.
type handover struct {
	epoch int64           // that ends
	began time.Time       // from here on nobody was served
	done  chan handedOver // gets the one outcome, and has room for it
}

type handedOver struct {
	to  client.Handover
	err error
}

// handOver makes the node give way, if it reigns, and returns when somebody
// serves again. The handover goes on when ctx ends.
func (n *node) handOver(ctx context.Context) (client.Handover, error) {
	h := &handover{done: make(chan handedOver, 1)}
	timer := time.NewTimer(handoverWait)
	defer timer.Stop()
	select {
	case n.handovers <- h:
	case <-time.After(time.Second):
		return client.Handover{}, &apiError{code: client.CodeUnavailable, message: "the node is starting, stopping or handing over"}
	}
	select {
	case out := <-h.done:
		return out.to, out.err
	case <-timer.C:
		return client.Handover{}, &apiError{code: client.CodeUnavailable, message: fmt.Sprintf("the node handed over, and no node serves yet after %s", handoverWait)}
	case <-ctx.Done():
		return client.Handover{}, errHungUp
	}
}

// makeWay ends a reign as stop does, but for the server, which lives on and
// sends everyone away. The root is closed, and the next acquire leaves others
// the time to take it.
func (n *node) makeWay(ctx context.Context, q engine, p primary, h *handover) error {
	n.cfg.Logger.Info("handing over", "epoch", p.Epoch())
	n.leaving, h.epoch, h.began = h, p.Epoch(), time.Now()
	q.DrainClaims()
	n.api.Leave(ctx, min(n.cfg.ShutdownGrace, handoverGrace))
	if err := errors.Join(n.sql.shut(), q.Close()); err != nil {
		return fmt.Errorf("close queue: %w", err)
	}
	err := n.stopReplica(ctx, p, nil)
	n.api.Shut(leavingReason)
	if err != nil && !errors.Is(err, replicate.ErrFenced) {
		n.cfg.Logger.Warn("the handover failed", "err", err)
		n.settle(client.Handover{}, &apiError{code: client.CodeUnavailable, message: "the root was not given free, and this node goes on as soon as it can: its log says why"})
	}
	return errHandedOver
}

// settle answers the handover under way, if there is one.
func (n *node) settle(to client.Handover, err error) {
	if n.leaving == nil {
		return
	}
	to.GapMS = time.Since(n.leaving.began).Milliseconds()
	if err == nil {
		n.cfg.Logger.Info("handed over", "taken_over", to.TakenOver, "primary", to.Node, "epoch", to.Epoch, "gap", time.Since(n.leaving.began).String())
	}
	n.leaving.done <- handedOver{to, err}
	n.leaving = nil
}

// follows is told what lock.json says while this node is a standby.
func (n *node) follows(lock replicate.Lock) {
	if n.leaving != nil && lock.Ready == lock.Epoch && lock.Epoch > n.leaving.epoch {
		n.settle(client.Handover{TakenOver: true, Node: lock.Node, URL: lock.URL, Epoch: lock.Epoch}, nil)
	}
}

// yield is how long others may take the root that this node closed: as long as
// the silence after which a standby takes it from one that is gone.
func (n *node) yield() time.Duration {
	if n.leaving == nil {
		return 0
	}
	ttl := n.cfg.Replication.LeaseTTL
	return ttl + ttl/3
}

// handover is POST /v1/handover.
func (a *API) handover(w http.ResponseWriter, r *http.Request) error {
	if err := decodeNothing(w, r); err != nil {
		return err
	}
	if a.handOver == nil {
		return &apiError{code: client.CodeWrongState, message: "failover is manual, and so no standby waits: stop this node, then start another; or set failover: auto in litestream.yml"}
	}
	to, err := a.handOver(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, to)
}

const leavingReason = "this node hands over to a standby"

// Leave lets no further request in, and returns when those under way have their
// answers, or after grace. Clients go on to the next node that they know.
func (a *API) Leave(ctx context.Context, grace time.Duration) {
	a.primary.Store(new(string))
	a.NotReady(leavingReason)
	a.store.Store(nil)
	a.feed.cut(&apiError{code: client.CodeNotPrimary, message: leavingReason})
	for end := time.Now().Add(grace); a.running.Load() > 0 && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond)
	}
}
