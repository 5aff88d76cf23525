package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

type outcomeKind int

const (
	ackRun outcomeKind = iota
	failRun
	releaseRun
	snoozeRun
)

// carried reports whether a claim can carry outcomes of the kind.
func (k outcomeKind) carried() bool { return k == ackRun || k == failRun }

// outcome is how a run ended, until the node knows.
type outcome struct {
	kind   outcomeKind
	job    Claimed
	result []byte    // of an ack
	err    error     // of a fail
	bytes  int       // see size
	sent   int       // times without an answer
	alone  bool      // to be sent by itself: a batch with it was refused
	giveUp time.Time // not sent after it
}

func (o outcome) ack() Ack { return Ack{Lease: o.job.Lease, Result: o.result} }

func (o outcome) fail() Fail {
	f := Fail{Lease: o.job.Lease, Error: errorText(o.err)}
	if _, ok := errors.AsType[*fatalError](o.err); ok {
		f.Fatal = true
	}
	if later, ok := errors.AsType[*laterError](o.err); ok {
		ms := max(later.in.Milliseconds(), 0)
		f.RetryInMS = &ms
	}
	return f
}

func (o outcome) snooze() Snoozing {
	item := Snoozing{Lease: o.job.Lease}
	if e, ok := errors.AsType[*snoozeError](o.err); ok {
		item.DelayMS = min(max(e.in, 0), maxDelay).Milliseconds()
	}
	return item
}

// errorText is what a node keeps of an error.
func errorText(err error) string {
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) > MaxError {
		text = strings.ToValidUTF8(text[:MaxError], "")
	}
	return text
}

// size is about how many bytes o adds to a request.
func (o outcome) size() int {
	switch o.kind {
	case ackRun:
		return len(o.result)
	case failRun:
		escaped, err := json.Marshal(errorText(o.err))
		if err != nil {
			return 6 * MaxError
		}
		return len(escaped)
	}
	return 0
}

// batchSize keeps a batch within what a node takes in one request.
type batchSize struct{ items, bytes int }

// fits reports whether o goes into the batch, and counts it if so.
func (b *batchSize) fits(o outcome) bool {
	if b.items == MaxItems || b.bytes+o.bytes > maxBatchBytes || o.alone && b.items > 0 {
		return false
	}
	b.items++
	b.bytes += o.bytes
	if o.alone {
		b.items = MaxItems
	}
	return true
}

// startSettle reports outcomes that do not wait for the next claim to carry
// them: always when a claim waits for jobs, since that may be long.
func (s *shift) startSettle(now time.Time) {
	if !s.settle.ready(now) {
		return
	}
	var batch []outcome
	var size batchSize
	rest := s.pending[:0]
	for _, o := range s.pending {
		carry := s.claim.busy && !s.claimWaits && !s.stopping && o.sent == 0 && !o.alone && o.kind.carried()
		if carry || !size.fits(o) {
			rest = append(rest, o)
		} else {
			batch = append(batch, o)
		}
	}
	s.pending = rest
	if len(batch) == 0 {
		return
	}
	s.settle.busy = true
	s.call(func() func() {
		reports := report(s.base, s.source, batch)
		return func() { s.reported(reports) }
	})
}

// reports is the answer to the outcomes of one kind.
type reports struct {
	batch   []outcome
	results []Result
	err     error
}

// report sends outcomes, those of each kind in one request.
func report(ctx context.Context, source Source, batch []outcome) []reports {
	var byKind [snoozeRun + 1]reports
	var acks []Ack
	var fails []Fail
	var releases []Release
	var snoozes []Snoozing
	for _, o := range batch {
		byKind[o.kind].batch = append(byKind[o.kind].batch, o)
		switch o.kind {
		case ackRun:
			acks = append(acks, o.ack())
		case failRun:
			fails = append(fails, o.fail())
		case releaseRun:
			releases = append(releases, Release{Lease: o.job.Lease})
		case snoozeRun:
			snoozes = append(snoozes, o.snooze())
		}
	}
	send := func(kind outcomeKind, f func() ([]Result, error)) {
		if r := &byKind[kind]; len(r.batch) > 0 {
			r.results, r.err = f()
		}
	}
	send(ackRun, func() ([]Result, error) { return source.Ack(ctx, acks...) })
	send(failRun, func() ([]Result, error) { return source.Fail(ctx, fails...) })
	send(releaseRun, func() ([]Result, error) { return source.Release(ctx, releases...) })
	send(snoozeRun, func() ([]Result, error) { return source.Snooze(ctx, snoozes...) })
	return byKind[:]
}

func (s *shift) reported(all []reports) {
	s.settle.busy = false
	answered := true
	for _, r := range all {
		if r.err != nil && refused(r.err) {
			s.batchRefused(r.batch, r.err)
		} else if r.err != nil {
			s.unsettled(r.batch, r.err)
			answered = false
		} else if !s.settled(r.batch, r.results) {
			answered = false
		}
	}
	if answered {
		s.settle.succeeded()
	} else {
		s.settle.failed(time.Now())
	}
}

// unsettled keeps outcomes whose request brought no answer.
func (s *shift) unsettled(batch []outcome, err error) {
	if len(batch) == 0 {
		return
	}
	s.log.Warn("outcomes of runs not reported; trying again", "runs", len(batch), "err", err)
	for _, o := range batch {
		o.sent++
		s.pending = append(s.pending, o)
	}
}

// batchRefused takes a refusal of a request as a whole. Whichever of its
// outcomes is to blame, the others must not suffer for it: each goes by itself.
func (s *shift) batchRefused(batch []outcome, err error) {
	if len(batch) == 0 {
		return
	}
	if len(batch) == 1 {
		s.itemRefused(batch[0], err)
		return
	}
	s.log.Warn("a report of several runs was refused; sending one by one", "runs", len(batch), "err", err)
	for _, o := range batch {
		o.alone = true
		s.pending = append(s.pending, o)
	}
}

// itemRefused takes a refusal of one outcome that will be the same each time. A
// result that is not taken makes the run a failure, whose reason says so.
func (s *shift) itemRefused(o outcome, err error) {
	if o.kind != ackRun {
		s.logOf(o).Error("the outcome of the run was refused", "err", err)
		return
	}
	o.kind, o.err = failRun, fmt.Errorf("the ack was refused: %w", err)
	o.bytes = o.size()
	s.pending = append(s.pending, o)
}

// settled takes the answer to each outcome of a batch. It reports false when
// one is to be sent again.
func (s *shift) settled(batch []outcome, results []Result) bool {
	all := true
	for i, o := range batch {
		err := errors.New("the node gave no answer to it")
		if i < len(results) {
			err = results[i].Err()
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrLeaseLost) && o.sent > 0:
			s.logOf(o).Warn("lease lost, or an earlier report of the run was taken and its answer lost", "err", err)
		case errors.Is(err, ErrLeaseLost):
			s.logOf(o).Warn("lease lost; the outcome of the run is dropped and the job runs again", "err", err)
		case refused(err):
			s.itemRefused(o, err)
		default:
			o.sent++
			s.pending = append(s.pending, o)
			all = false
		}
	}
	return all
}

// giveUp drops outcomes that the node will not take any more: the job runs
// again when its lease has ended there.
func (s *shift) giveUp(now time.Time) {
	rest := s.pending[:0]
	for _, o := range s.pending {
		tooLate := !now.Before(o.giveUp) || s.stopping && s.lastCall(now)
		if o.sent > 0 && tooLate {
			s.logOf(o).Error("the outcome of the run could not be reported; the job runs again", "tries", o.sent)
			continue
		}
		rest = append(rest, o)
	}
	s.pending = rest
}

func (s *shift) logOf(o outcome) *slog.Logger {
	return s.log.With("job", o.job.ID, "queue", o.job.Queue, "run", o.job.Run)
}
