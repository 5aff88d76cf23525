package node

import (
	"context"
	"net/http"

	"holdfast/node/client"
	"holdfast/queue"
)

// What handlers leave out for a token that is not for everything.

// show is a job as p may see it.
func (p *principal) show(job *queue.Job) client.Job {
	wire := jobOf(job)
	if !p.may(scopePayload) {
		wire.PayloadHidden = len(wire.Payload)+len(wire.Result)+len(wire.Progress) > 0
		wire.Payload, wire.Result, wire.Progress = nil, nil, nil
	}
	return wire
}

// within narrows a filter to what p may see.
func (p *principal) within(f queue.Filter) (queue.Filter, error) {
	if f.Queue != "" {
		if err := p.wantsQueue(f.Queue); err != nil {
			return f, err
		}
	}
	f.Allow = p.allow()
	f.WithPayload = f.WithPayload && p.may(scopePayload)
	return f, nil
}

// trusts reports whether the details of the node's state are for who makes r.
func (a *API) trusts(r *http.Request) bool {
	if !a.gate.closed() {
		return true
	}
	if r.Header.Get("Authorization") == "" {
		return false
	}
	p, err := a.gate.identify(r)
	return err == nil && p.may(scopeView)
}

// learn reads the tokens of a store. One that keeps none has none.
func (a *API) learn(ctx context.Context, s Store) {
	store, ok := s.(TokenStore)
	if !ok {
		return
	}
	if err := a.gate.load(ctx, store); err != nil {
		a.log.Error("the access tokens cannot be read; only the admin token is accepted", "err", err)
	}
}

func leaseOfAck(a *queue.Ack) *string       { return &a.Lease }
func leaseOfFail(f *queue.Fail) *string     { return &f.Lease }
func leaseOfRelease(lease *string) *string  { return lease }
func leaseOfSnooze(s *queue.Snooze) *string { return &s.Lease }
func leaseOfExtend(e *queue.Extend) *string { return &e.Lease }

// screen is a batch as it was sent, and what of it is not for who sent it.
type screen struct {
	leases []string
	denied map[int]queue.Result
}

// newScreen takes the leases of jobs that who makes r may not touch out of a
// batch. The items keep their places, by which errors name them; to the queue
// one without a lease is lost, and changes nothing.
func newScreen[Item any](r *http.Request, s Store, items []Item, lease func(*Item) *string) (*screen, error) {
	sc := &screen{leases: leasesOf(items, lease)}
	p := principalOf(r)
	if p.all || len(items) == 0 {
		return sc, nil
	}
	ids := make([]int64, len(items))
	for i, token := range sc.leases {
		ids[i], _ = jobOfLease(token) // 0, of which there is none, for one that names no job
	}
	of, err := queuesOf(r, s, ids)
	if err != nil {
		return nil, err
	}
	sc.denied = map[int]queue.Result{}
	for i, id := range ids {
		if name, ok := of[id]; ok && !p.covers(name) {
			sc.denied[i] = queue.Result{ID: id, Err: p.notItsJob(id)}
			*lease(&items[i]) = ""
		}
	}
	return sc, nil
}

// correct puts into the results of the batch what the queue could not say.
func (sc *screen) correct(s Store, results []queue.Result) {
	neverGiven(s, sc.leases, results)
	for i, no := range sc.denied {
		results[i] = no
	}
}

// screened settles a batch, all but the items that are not for who makes r.
func screened[Item any](
	r *http.Request, s Store, items []Item, lease func(*Item) *string,
	do func(context.Context, []Item) ([]queue.Result, queue.Seq, error),
) ([]queue.Result, queue.Seq, error) {
	sc, err := newScreen(r, s, items, lease)
	if err != nil {
		return nil, queue.Seq{}, err
	}
	results, seq, err := do(r.Context(), items)
	if err == nil {
		sc.correct(s, results)
	}
	return results, seq, err
}

func leasesOf[Item any](items []Item, lease func(*Item) *string) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = *lease(&items[i])
	}
	return out
}
