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

func leaseOfAck(a *queue.Ack) string       { return a.Lease }
func leaseOfFail(f *queue.Fail) string     { return f.Lease }
func leaseOfRelease(lease *string) string  { return *lease }
func leaseOfSnooze(s *queue.Snooze) string { return s.Lease }
func leaseOfExtend(e *queue.Extend) string { return e.Lease }

// screen finds the leases of jobs that p may not touch. They are not handed to
// the queue, and each fails alone.
func screen(r *http.Request, s Store, leases []string) (denied map[int]queue.Result, err error) {
	p := principalOf(r)
	if p.all || len(leases) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(leases))
	for i, lease := range leases {
		ids[i], _ = jobOfLease(lease) // 0, of which there is none, for one that names no job
	}
	of, err := queuesOf(r, s, ids)
	if err != nil {
		return nil, err
	}
	denied = map[int]queue.Result{}
	for i, id := range ids {
		if name, ok := of[id]; ok && !p.covers(name) {
			denied[i] = queue.Result{ID: id, Err: p.notItsJob(id)}
		}
	}
	return denied, nil
}

// screened settles the items that are not denied, and puts the results of all
// into their order.
func screened[Item any](
	r *http.Request, s Store, items []Item, lease func(*Item) string,
	do func(context.Context, []Item) ([]queue.Result, queue.Seq, error),
) ([]queue.Result, queue.Seq, error) {
	denied, err := screen(r, s, leasesOf(items, lease))
	if err != nil {
		return nil, queue.Seq{}, err
	}
	if len(denied) == 0 {
		return do(r.Context(), items)
	}
	seq := s.Seq()
	var results []queue.Result
	if kept := without(items, denied); len(kept) > 0 {
		if results, seq, err = do(r.Context(), kept); err != nil {
			return nil, seq, err
		}
	}
	return merged(results, denied), seq, nil
}

func leasesOf[Item any](items []Item, lease func(*Item) string) []string {
	out := make([]string, len(items))
	for i := range items {
		out[i] = lease(&items[i])
	}
	return out
}

func without[Item any](items []Item, denied map[int]queue.Result) []Item {
	if len(denied) == 0 {
		return items
	}
	var kept []Item
	for i := range items {
		if _, no := denied[i]; !no {
			kept = append(kept, items[i])
		}
	}
	return kept
}

func merged(results []queue.Result, denied map[int]queue.Result) []queue.Result {
	all := make([]queue.Result, 0, len(results)+len(denied))
	for i := range len(results) + len(denied) {
		if no, ok := denied[i]; ok {
			all = append(all, no)
			continue
		}
		all = append(all, results[0])
		results = results[1:]
	}
	return all
}
