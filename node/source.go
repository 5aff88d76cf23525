package node

import (
	"context"
	"errors"
	"log/slog"

	"holdfast/node/client"
	"holdfast/queue"
)

// Source lets a [client.Worker] take its jobs from a queue in its own process.
// It answers as the HTTP API does, with the durability of the file: to wait for
// object storage is the API's business. The cause of an internal error goes to
// log, which may be nil.
func Source(s Store, log *slog.Logger) client.Source {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &source{s, log}
}

type source struct {
	store Store
	log   *slog.Logger
}

// public is what the API's clients see of err.
func (s *source) public(err error) *apiError {
	if e := asAPIError(err); e != nil {
		return e
	}
	s.log.Error("call failed", "err", err)
	return &apiError{code: client.CodeInternal, message: "internal error; the node's log has the cause"}
}

// fault is err as a client returns it.
func (s *source) fault(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := s.public(err)
	return &client.Error{Status: e.status(), Code: e.code, Message: e.message}
}

// Claim implements [client.Source].
func (s *source) Claim(ctx context.Context, wire client.ClaimRequest) (client.Claims, error) {
	req, err := claimOf(&wire)
	if err != nil {
		return client.Claims{}, s.fault(err)
	}
	claims, _, err := s.store.Claim(ctx, req)
	if err != nil {
		return client.Claims{}, s.fault(err)
	}
	neverGiven(s.store, leasesOf(req.Acks, leaseOfAck), claims.Acks)
	neverGiven(s.store, leasesOf(req.Fails, leaseOfFail), claims.Fails)
	return claimsOf(s.public, &claims), nil
}

// Ack implements [client.Source].
func (s *source) Ack(ctx context.Context, wire ...client.Ack) ([]client.Result, error) {
	return settle(ctx, s, "acks", wire, ackOf, leaseOfAck, s.store.Ack)
}

// Fail implements [client.Source].
func (s *source) Fail(ctx context.Context, wire ...client.Fail) ([]client.Result, error) {
	return settle(ctx, s, "fails", wire, failOf, leaseOfFail, s.store.Fail)
}

// Release implements [client.Source].
func (s *source) Release(ctx context.Context, wire ...client.Release) ([]client.Result, error) {
	return settle(ctx, s, "releases", wire, releaseOf, leaseOfRelease, s.store.Release)
}

// Snooze implements [client.Source].
func (s *source) Snooze(ctx context.Context, wire ...client.Snoozing) ([]client.Result, error) {
	return settle(ctx, s, "snoozes", wire, snoozeOf, leaseOfSnooze, s.store.Snooze)
}

// Extend implements [client.Source].
func (s *source) Extend(ctx context.Context, wire ...client.Extend) ([]client.Result, error) {
	return settle(ctx, s, "extends", wire, extendOf, leaseOfExtend, s.store.Extend)
}

// settle converts a batch, does it, and converts what became of it.
func settle[Wire, Item any](
	ctx context.Context, s *source, field string, wire []Wire,
	convert func(*Wire) (Item, error), lease func(*Item) *string, do func(context.Context, []Item) ([]queue.Result, queue.Seq, error),
) ([]client.Result, error) {
	items, err := each(field, wire, convert)
	if err != nil {
		return nil, s.fault(err)
	}
	results, _, err := do(ctx, items)
	if err != nil {
		return nil, s.fault(err)
	}
	neverGiven(s.store, leasesOf(items, lease), results)
	return resultsOf(s.public, results), nil
}
