package queue

// Change is a job that came into another state.
type Change struct {
	Job   int64
	Queue string
	From  State // 0: the job is new
	To    State // 0: the job is deleted
}

// moved counts one job from a state to another, and notes it for OnChange. An
// archived job is counted nowhere, see heldJob.counted.
func (r *round) moved(q *queueState, id int64, from, to State) {
	r.move(q, from, to, 1)
	r.noted(q, id, from, to)
}

// noted keeps a change of a job for OnChange, which it is told of only when
// somebody asks.
func (r *round) noted(q *queueState, id int64, from, to State) {
	if r.w.opts.OnChange != nil {
		r.changes = append(r.changes, Change{Job: id, Queue: q.name, From: from, To: to})
	}
}
