package client

import (
	"context"
	"errors"
	"time"
)

// beatEvery leaves a lease two more chances when one heartbeat is lost.
func (s *shift) beatEvery() time.Duration { return s.opts.Lease / 3 }

// startBeat extends the leases of all runs in one request.
func (s *shift) startBeat(now time.Time) {
	if len(s.running) == 0 || !s.beat.ready(now) {
		return
	}
	var runs []*run
	var extends []Extend
	for lease, r := range s.running {
		if r.lost {
			continue
		}
		runs = append(runs, r)
		extends = append(extends, Extend{Lease: lease, LeaseMS: s.opts.Lease.Milliseconds()})
	}
	if len(runs) == 0 {
		s.beat.next = now.Add(s.beatEvery())
		return
	}
	s.beat.busy = true
	s.call(func() func() {
		// A request that hangs must not cost the lease its next heartbeats.
		ctx, cancel := context.WithTimeout(s.base, s.beatEvery())
		defer cancel()
		results, err := s.source.Extend(ctx, extends...)
		return func() { s.beaten(now, runs, results, err) }
	})
}

// beaten takes the answer to a heartbeat that was sent at the given time.
func (s *shift) beaten(sent time.Time, runs []*run, results []Result, err error) {
	now := time.Now()
	s.beat.busy = false
	if err != nil {
		if s.beat.fails == 0 {
			s.log.Warn("leases not extended; trying again", "runs", len(runs), "err", err)
		}
		s.beat.failed(now)
		if limit := now.Add(s.beatEvery()); s.beat.next.After(limit) {
			s.beat.next = limit
		}
	} else {
		s.beat.succeeded()
		s.beat.next = sent.Add(s.beatEvery())
		for i, r := range runs[:min(len(runs), len(results))] {
			s.extended(r, sent, results[i])
		}
	}
	for _, r := range s.running {
		// Without word from the node for as long as the lease, another worker
		// may have the job by now.
		if !r.lost && !now.Before(r.leaseEnd) {
			r.end(ErrLeaseLost)
		}
	}
}

func (s *shift) extended(r *run, sent time.Time, result Result) {
	log := s.log.With("job", r.job.ID, "queue", r.job.Queue, "run", r.job.Run)
	err := result.Err()
	switch {
	case errors.Is(err, ErrLeaseLost):
		if s.running[r.job.Lease] == r {
			log.Warn("lease lost; the handler is cancelled", "err", err)
		}
		r.lost = true
		r.end(ErrLeaseLost)
	case err != nil:
		log.Warn("lease not extended", "err", err)
	default:
		r.leaseEnd = sent.Add(s.opts.Lease)
		if result.Cancel {
			r.end(ErrCancelled)
		}
	}
}
