package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// edgeStore is the [Store] of an edge, which reads.
type edgeStore struct {
	*queue.Reader
	noWrites
	copies *copies
	hold   *hold // the one state that is read; nil: each call reads the newest
}

func newEdgeStore(c *copies, h *hold) *edgeStore {
	acquire := c.acquire
	if h != nil {
		acquire = h.acquire
	}
	return &edgeStore{Reader: queue.NewReader(acquire), copies: c, hold: h}
}

// Seq implements Store.
func (s *edgeStore) Seq() queue.Seq {
	if s.hold != nil {
		return s.hold.at
	}
	at, _, _ := s.copies.newest()
	return at
}

// Wait implements Store: it looks at the job again in each state that comes.
func (s *edgeStore) Wait(ctx context.Context, id int64, d time.Duration) (queue.Job, error) {
	if d < 0 || d > queue.MaxWait {
		return queue.Job{}, &queue.SpecError{Field: "wait_ms", Reason: fmt.Sprintf("must be from 0 to %d", queue.MaxWait.Milliseconds())}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := s.copies.follower.Changed()
		job, err := s.Job(ctx, id)
		if err != nil || job.State.Final() || d == 0 {
			return job, err
		}
		s.hold.release()
		select {
		case <-changed:
		case <-timer.C:
			d = 0 // once more, since the state was given back
		case <-ctx.Done():
			return job, ctx.Err()
		}
		if s.hold != nil {
			if err := s.hold.renew(); err != nil {
				return job, err
			}
		}
	}
}

// edgeReplica is how following stands, in the terms of a primary. All that an
// edge has is in the replica.
type edgeReplica struct{ copies *copies }

// Status implements Replica. What is pending is the age of the copy.
func (e edgeReplica) Status() replicate.Status {
	st := e.copies.follower.Status()
	at, asOf, _ := e.copies.newest()
	s := replicate.Status{
		Epoch: at.Epoch, URL: st.URL, Seq: at.N, ReplicatedSeq: at.N, TXID: st.TXID, PendingSince: asOf,
		LastSyncAt: st.CheckedAt, LastError: st.Problem, LastErrorAt: st.ProblemAt, Requests: st.Requests,
	}
	if now := time.Now(); s.PendingSince.After(now) {
		s.PendingSince = now // by the primary's clock
	}
	return s
}

// Valid implements Replica.
func (edgeReplica) Valid() bool { return true }

// CanReplicate implements Replica.
func (edgeReplica) CanReplicate() bool { return false }

// Replicated implements Replica.
func (edgeReplica) Replicated(context.Context) error { return replicate.ErrUnreplicated }

// edgeWarnings says why the copy of an edge is not what it should be.
func edgeWarnings(st *replicate.Status, now time.Time) []string {
	lag := st.Lag(now).Round(time.Second)
	switch {
	case st.LastError != "":
		return []string{fmt.Sprintf("the copy of %s is held up, and may be %s old: %s", st.URL, lag, st.LastError)}
	case lag >= stale:
		return []string{fmt.Sprintf("the copy of %s may be %s old: the primary is not heard from", st.URL, lag)}
	}
	return nil
}

// stale is the age from which a copy is worth a warning: that of a lease that was
// not renewed.
const stale = 30 * time.Second

// noWrites refuses what changes something. The API does so before: see unavailable.
type noWrites struct{}

var errReadOnly = &apiError{code: client.CodeNotPrimary, message: "this node is an edge, which only reads; the header " + primaryHeader + " says where the primary is"}

func (noWrites) Enqueue(context.Context, ...queue.Spec) ([]queue.Enqueued, queue.Seq, error) {
	return nil, queue.Seq{}, errReadOnly
}

func (noWrites) Claim(context.Context, queue.ClaimRequest) (queue.Claims, queue.Seq, error) {
	return queue.Claims{}, queue.Seq{}, errReadOnly
}

func (noWrites) Ack(context.Context, []queue.Ack) ([]queue.Result, queue.Seq, error) {
	return nil, queue.Seq{}, errReadOnly
}

func (noWrites) Fail(context.Context, []queue.Fail) ([]queue.Result, queue.Seq, error) {
	return nil, queue.Seq{}, errReadOnly
}

func (noWrites) Release(context.Context, []string) ([]queue.Result, queue.Seq, error) {
	return nil, queue.Seq{}, errReadOnly
}

func (noWrites) Snooze(context.Context, []queue.Snooze) ([]queue.Result, queue.Seq, error) {
	return nil, queue.Seq{}, errReadOnly
}

func (noWrites) Extend(context.Context, []queue.Extend) ([]queue.Result, queue.Seq, error) {
	return nil, queue.Seq{}, errReadOnly
}

func (noWrites) Retry(context.Context, int64, json.RawMessage) (queue.Job, queue.Seq, error) {
	return queue.Job{}, queue.Seq{}, errReadOnly
}

func (noWrites) Cancel(context.Context, int64) (queue.Job, queue.Seq, error) {
	return queue.Job{}, queue.Seq{}, errReadOnly
}

func (noWrites) Archive(context.Context, int64) (queue.Job, queue.Seq, error) {
	return queue.Job{}, queue.Seq{}, errReadOnly
}

func (noWrites) Delete(context.Context, int64) (queue.Seq, error) { return queue.Seq{}, errReadOnly }

func (noWrites) RetryDead(context.Context, queue.Filter, bool) (queue.Bulk, queue.Seq, error) {
	return queue.Bulk{}, queue.Seq{}, errReadOnly
}

func (noWrites) ArchiveDead(context.Context, queue.Filter, bool) (queue.Bulk, queue.Seq, error) {
	return queue.Bulk{}, queue.Seq{}, errReadOnly
}

func (noWrites) UpdateQueue(context.Context, string, queue.Patch) (queue.Info, queue.Seq, error) {
	return queue.Info{}, queue.Seq{}, errReadOnly
}
