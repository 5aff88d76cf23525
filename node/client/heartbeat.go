package client

import (
	"context"
	"errors"
	"time"
)

// beatEvery leaves a lease two more chances when one heartbeat is lost.
func (s *shift) beatEvery() time.Duration { return s.opts.Lease / 3 }

// progressEvery is how often progress is reported at most.
const progressEvery = time.Second

// progressed keeps what a handler reported for a heartbeat soon.
func (s *shift) progressed(r *run, text []byte) {
	if s.running[r.job.Lease] != r {
		return // it has ended
	}
	r.progress = text
	if soon := s.lastBeat.Add(progressEvery); s.beat.fails == 0 && s.beat.next.After(soon) {
		s.beat.next = soon
	}
}

// startBeat extends the leases of all runs in one request.
func (s *shift) startBeat(now time.Time) {
	if len(s.running) == 0 || !s.beat.ready(now) {
		return
	}
	var runs []*run
	var extends []Extend
	bytes := 0
	for lease, r := range s.running {
		if r.lost {
			continue
		}
		runs = append(runs, r)
		extend := Extend{Lease: lease, LeaseMS: s.opts.Lease.Milliseconds()}
		if bytes+len(r.progress) <= maxBatchBytes {
			bytes += len(r.progress)
			extend.Progress, r.progress = r.progress, nil
		}
		extends = append(extends, extend)
	}
	if len(runs) == 0 {
		s.beat.next = now.Add(s.beatEvery())
		return
	}
	s.beat.busy = true
	s.lastBeat = now
	s.call(func() func() {
		// A request that hangs must not cost the lease its next heartbeats.
		ctx, cancel := context.WithTimeout(s.base, s.beatEvery())
		defer cancel()
		results, err := s.source.Extend(ctx, extends...)
		return func() { s.beaten(now, runs, extends, results, err) }
	})
}

// beaten takes the answer to a heartbeat that was sent at the given time.
func (s *shift) beaten(sent time.Time, runs []*run, extends []Extend, results []Result, err error) {
	now := time.Now()
	s.beat.busy = false
	if err != nil {
		for i, r := range runs {
			// Unless it is what the node refuses, or a newer one has come.
			if r.progress == nil && !refused(err) {
				r.progress = extends[i].Progress
			}
		}
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
		for _, r := range s.running {
			if r.progress != nil { // it came meanwhile
				s.progressed(r, r.progress)
			}
		}
		for i, r := range runs[:min(len(runs), len(results))] {
			s.extended(r, sent, results[i])
		}
	}
	for _, r := range s.running {
		// Without word from the node for as long as the lease, another worker
		// may have the job by now.
		if !r.lost && !now.Before(r.leaseEnd) {
			s.withdraw(r, ErrLeaseLost)
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
		s.withdraw(r, ErrLeaseLost)
	case err != nil:
		log.Warn("lease not extended", "err", err)
	default:
		r.leaseEnd = sent.Add(s.opts.Lease)
		if result.Cancel {
			s.withdraw(r, ErrCancelled)
		}
	}
}
