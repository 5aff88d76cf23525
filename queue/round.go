package queue

import (
	"errors"
	"fmt"
	"slices"
)

// round is one transaction of the writer. It has one time, and changes the
// writer's memory only by its deltas, which count after the commit.
type round struct {
	w     *writer
	now   instant
	batch []*op

	open  bool // a transaction is open
	dirty bool // and has changed something
	undo  []func()

	nextID  int64
	delta   map[*queueState]*delta
	next    agenda   // the writer's after the round
	done    []func() // what the commit makes true
	finals  []int64  // jobs that came to an end
	changes []Change // for OnChange
	dealt   []*claim // claims with jobs, in order
}

// delta is what a round changes of a queue's counts.
type delta struct {
	counts                [StateCancelled + 1]int64
	in, out, failed, dead int64
	lastError             string
	cancelled             int64
	wait, run             Spans
}

// run executes the batch. An open round takes in what arrives while it works:
// the callers that the last round answered are back by then, and share its
// commit.
func (r *round) run(open bool) error {
	r.nextID, r.next = r.w.nextID, r.w.due
	r.delta = map[*queueState]*delta{}
	if err := r.step(); err != nil {
		return fmt.Errorf("step of the clock: %w", err)
	}
	for begun := 0; ; {
		if open {
			r.batch = r.w.collect(r.batch)
		}
		part := r.batch[begun:]
		if len(part) == 0 {
			break
		}
		begun = len(r.batch)
		if err := r.change(part); err != nil {
			return err
		}
	}
	if open {
		if err := r.housekeep(); err != nil {
			return fmt.Errorf("housekeeping: %w", err)
		}
	}
	if err := r.claims(); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	return nil
}

// change executes a part of the batch but for its claims.
func (r *round) change(part []*op) error {
	if err := r.finish(part); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	for _, o := range part {
		if err := r.admin(o); err != nil {
			return err
		}
	}
	if err := r.enqueue(part); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// admin runs one change by hand, or a transaction. A refusal comes before the
// first statement that changes anything, so it fails its own operation alone.
func (r *round) admin(o *op) error {
	switch {
	case o.tx != nil:
		return r.transact(o)
	case o.admin == nil:
		return nil
	}
	o.err, o.count = nil, 1
	err := o.admin(r)
	for _, refusal := range []error{ErrNotFound, ErrNoQueue, ErrWrongState, ErrNoToken, ErrTokenName, ErrTooManyTokens} {
		if errors.Is(err, refusal) {
			o.err = err
			return nil
		}
	}
	if err == nil {
		err = r.audit(o)
	}
	return err
}

// attempt runs f under a savepoint. Unless f reports success, all that it did
// is undone, in the file and in the round.
func (r *round) attempt(f func() (ok bool, err error)) error {
	if err := r.begin(); err != nil {
		return err
	}
	if _, err := r.w.st.savepoint.Exec(); err != nil {
		return err
	}
	before := *r
	before.delta = make(map[*queueState]*delta, len(r.delta))
	for q, d := range r.delta {
		before.delta[q] = new(*d)
	}
	ok, err := f()
	if err != nil {
		return err
	}
	if !ok {
		if _, err := r.w.st.rollbackTo.Exec(); err != nil {
			return err
		}
		undo(r.undo[len(before.undo):])
		*r = before
	}
	_, err = r.w.st.releaseTo.Exec()
	return err
}

// undo takes back what was noted, the last first.
func undo(noted []func()) {
	for _, f := range slices.Backward(noted) {
		f()
	}
}

// ended notes that a job came to an end, for those who wait for it.
func (r *round) ended(id int64) { r.finals = append(r.finals, id) }

func (r *round) begin() error {
	if r.open {
		return nil
	}
	if _, err := r.w.st.begin.Exec(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	r.open = true
	return nil
}

// of returns the round's delta for a queue.
func (r *round) of(q *queueState) *delta {
	d := r.delta[q]
	if d == nil {
		d = &delta{}
		r.delta[q] = d
	}
	return d
}

// move counts a job from one state to another; 0 is outside.
func (r *round) move(q *queueState, from, to State, n int64) {
	d := r.of(q)
	if from != 0 {
		d.counts[from] -= n
	}
	if to != 0 {
		d.counts[to] += n
	}
	r.dirty = true
}

// count returns how many jobs of q are in a state, this round included.
func (r *round) count(q *queueState, s State) int64 {
	n := q.counts[s]
	if d := r.delta[q]; d != nil {
		n += d.counts[s]
	}
	return n
}

// commit writes the counts and makes the round durable. A round that changed
// nothing leaves no trace in the file.
func (r *round) commit() error {
	w := r.w
	if !r.dirty {
		r.rollback()
		w.due = r.next
		r.settled()
		return nil
	}
	for q, d := range r.delta {
		if err := r.writeCounts(q, d); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	if _, err := w.st.closeRound.Exec(w.seq+1, r.nextID, r.now.wall); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	if p := r.next.paused; p > r.now.mono && p != r.next.kept { // so that a restart does not end it
		if _, err := w.st.keepPause.Exec(r.now.wall + p - r.now.mono); err != nil {
			return fmt.Errorf("keep the pause: %w", err)
		}
		r.next.kept = p
	}
	if _, err := w.st.commit.Exec(); err != nil {
		if isFull(err) {
			return err // its last frame was not written: the transaction did not happen
		}
		return w.stop(err)
	}
	r.open = false
	w.seq, w.nextID, w.due = w.seq+1, r.nextID, r.next
	w.done.Store(w.seq)
	for q, d := range r.delta {
		for s := range d.counts {
			q.counts[s] += d.counts[s]
		}
	}
	w.meters.add(r.delta)
	r.settled()
	if len(r.changes) > 0 {
		w.opts.OnChange(Seq{w.epoch, w.seq}, r.changes)
	}
	if w.opts.OnCommit != nil {
		w.opts.OnCommit(Seq{w.epoch, w.seq})
	}
	return nil
}

// settled makes true in memory what depended on the end of the round.
func (r *round) settled() {
	for _, f := range r.done {
		f()
	}
	if len(r.w.watched) == 0 {
		return
	}
	for _, id := range r.finals {
		for _, ended := range r.w.watched[id] {
			close(ended)
		}
		delete(r.w.watched, id)
	}
}

func (r *round) writeCounts(q *queueState, d *delta) error {
	m, now := q.minute, r.now.wall/60_000
	if m.at != now {
		if m.in|m.out|m.failed|m.dead != 0 {
			if _, err := r.w.st.closeMinute.Exec(q.id, m.at, m.in, m.out, m.failed, m.dead); err != nil {
				return err
			}
			if r.next.paused <= r.now.mono {
				if _, err := r.w.st.oldMinutes.Exec(q.id, now-int64(throughputBy.Minutes())); err != nil {
					return err
				}
			}
		}
		m = minute{at: now}
	}
	m.in, m.out, m.failed, m.dead = m.in+d.in, m.out+d.out, m.failed+d.failed, m.dead+d.dead
	r.done = append(r.done, func() { q.minute = m })
	if d.lastError != "" {
		if _, err := r.w.st.setQueueErr.Exec(q.id, r.now.wall, d.lastError); err != nil {
			return err
		}
	}
	c := &d.counts
	_, err := r.w.st.addCounts.Exec(c[StateBlocked], c[StateScheduled], c[StateQueued], c[StateRunning], c[StateDone], c[StateDead],
		c[StateCancelled], m.at, m.in, m.out, m.failed, m.dead, q.id)
	return err
}

// rollback forgets the round. SQLite may have rolled back by itself, so its
// complaint that no transaction is open is no error.
func (r *round) rollback() {
	for _, c := range r.dealt {
		c.jobs = nil
	}
	r.dealt = nil
	if !r.open {
		return
	}
	r.open = false
	r.w.st.rollback.Exec() //nolint:errcheck // see above
	undo(r.undo)
}

// answer tells the callers. Claims that found nothing wait on.
func (r *round) answer() {
	for _, c := range r.dealt {
		r.w.wait.remove(c)
		c.seq = r.w.seq
		if !c.leave(claimAnswered) {
			r.w.giveBack(c)
			continue
		}
		close(c.answered)
	}
	for _, o := range r.batch {
		if o.forget != nil {
			r.w.wait.remove(o.forget)
		}
		if o.claim != nil && o.claim.waits && len(o.claim.jobs) == 0 {
			r.w.wait.add(o.claim)
		}
		o.seq = r.w.seq
		close(o.done)
	}
}
