package client

import (
	"context"
	"time"
)

// startClaim asks for as many jobs as there are free slots and places to hold
// one.
//
// Outcomes that wait go along, which saves them a request and a commit. Such a
// claim does not wait for jobs: its answer, and with it the word that the acks
// are kept, would come only with the next job.
func (s *shift) startClaim(now time.Time) {
	free := s.opts.Concurrency + s.opts.Prefetch - len(s.running)
	if s.stopping || free <= 0 || !s.claim.ready(now) {
		return
	}
	req := ClaimRequest{
		Queues: s.opts.Queues, Worker: s.opts.Name,
		Max: free, LeaseMS: s.opts.Lease.Milliseconds(),
	}
	carried := s.takeCarried(&req)
	s.claimWaits = len(carried) == 0
	if s.claimWaits {
		req.WaitMS = pollWait.Milliseconds()
	}
	s.claimSince = now
	ctx, cancel := context.WithCancel(s.base)
	s.endClaim = cancel
	s.claim.busy = true
	s.call(func() func() {
		claims, err := s.source.Claim(ctx, req)
		cancel()
		return func() { s.claimed(carried, claims, err) }
	})
}

// takeCarried moves acks and fails from pending into req. One that was sent
// before goes a way of its own, so that it cannot hold up claims.
func (s *shift) takeCarried(req *ClaimRequest) []outcome {
	var acks, fails []outcome
	var size batchSize
	rest := s.pending[:0]
	for _, o := range s.pending {
		switch {
		case o.sent > 0 || o.alone || !o.kind.carried() || !size.fits(o):
			rest = append(rest, o)
		case o.kind == ackRun:
			acks = append(acks, o)
			req.Acks = append(req.Acks, o.ack())
		default:
			fails = append(fails, o)
			req.Fails = append(req.Fails, o.fail())
		}
	}
	s.pending = rest
	return append(acks, fails...)
}

// claimed takes the answer to a claim.
func (s *shift) claimed(carried []outcome, claims Claims, err error) {
	now := time.Now()
	s.claim.busy = false
	if err != nil {
		s.unsettled(carried, err)
		s.claimFailed(now, len(carried) > 0, err)
		return
	}
	if s.claim.fails > 0 {
		s.log.Info("the node answers again", "tries", s.claim.fails)
	}
	s.claim.succeeded()
	if !s.settled(carried, append(claims.Acks, claims.Fails...)) {
		s.settle.failed(now)
	}
	if len(claims.Jobs) == 0 && s.claimWaits && now.Sub(s.claimSince) < emptyPause {
		// A node that stops answers at once. So does one that is not to be waited
		// for, and must not be asked in a tight loop either.
		s.claim.next = now.Add(emptyPause)
	}
	for _, job := range claims.Jobs {
		if s.stopping {
			s.giveBack(job)
			continue
		}
		s.take(job, now)
	}
}

func (s *shift) claimFailed(now time.Time, carrying bool, err error) {
	switch {
	case s.stopping:
		return // it was called back
	case carrying && refused(err):
		return // an outcome may be to blame; the next claim goes without
	case refused(err):
		s.failure = err
		return
	}
	if s.claim.fails == 0 {
		s.log.Warn("the node does not answer; trying again", "err", err)
	}
	s.claim.failed(now)
}
