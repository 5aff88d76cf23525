package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// names are the dictionaries behind the integers in a job's row, and what the
// writer knows of each queue. Queues stay in memory; types and workers are
// looked up when they are not, and forgotten when they become many.
type names struct {
	queues  map[string]*queueState
	byID    map[int64]*queueState
	types   map[string]int64
	typeOf  map[int64]string
	workers map[string]int64
}

// queueState is the writer's view of a queue as of the last commit.
type queueState struct {
	id       int64
	name     string
	settings settings
	counts   [StateCancelled + 1]int64 // by State
	minute   minute
}

// minute are the rates of the present minute, not yet in the table minutes.
type minute struct {
	at                    int64 // Unix minutes; 0: nothing counted
	in, out, failed, dead int64
}

const namesKept = 10_000

// loadNames reads the queues with their counts.
func loadNames(ctx context.Context, conn *sql.Conn) (*names, error) {
	n := &names{
		queues: map[string]*queueState{}, byID: map[int64]*queueState{},
		types: map[string]int64{}, typeOf: map[int64]string{}, workers: map[string]int64{},
	}
	rows, err := conn.QueryContext(ctx, `select q.id, q.name, q.settings, c.blocked, c.scheduled, c.queued, c.running, c.done, c.dead, c.cancelled,
 c.minute, c.m_in, c.m_out, c.m_failed, c.m_dead from queues q join counts c on c.id = q.id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		q, text := &queueState{}, []byte(nil)
		c, m := &q.counts, &q.minute
		if err := rows.Scan(&q.id, &q.name, &text, &c[StateBlocked], &c[StateScheduled], &c[StateQueued], &c[StateRunning], &c[StateDone],
			&c[StateDead], &c[StateCancelled], &m.at, &m.in, &m.out, &m.failed, &m.dead); err != nil {
			return nil, err
		}
		if q.settings, err = parseSettings(text); err != nil {
			return nil, fmt.Errorf("settings of queue %s: %w", q.name, err)
		}
		n.queues[q.name], n.byID[q.id] = q, q
	}
	return n, rows.Err()
}

// queue returns the queue of a name, made in the round if it is new.
func (r *round) queue(name string) (*queueState, error) {
	if q := r.w.names.queues[name]; q != nil {
		return q, nil
	}
	if err := r.begin(); err != nil {
		return nil, err
	}
	res, err := r.w.st.addQueue.Exec(name)
	if err != nil {
		return nil, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return nil, err
	}
	if _, err := r.w.st.addCount.Exec(id); err != nil {
		return nil, err
	}
	q := &queueState{id: id, name: name}
	r.w.names.queues[name], r.w.names.byID[id] = q, q
	r.undo = append(r.undo, func() { delete(r.w.names.queues, name); delete(r.w.names.byID, id) })
	r.dirty = true
	return q, nil
}

// typeID returns the number of a job type, made in the round if it is new.
func (r *round) typeID(name string) (int64, error) {
	n := r.w.names
	id, ok := n.types[name]
	if ok {
		return id, nil
	}
	id, err := r.entry(r.w.st.findType, r.w.st.addType, name)
	if err != nil {
		return 0, err
	}
	if len(n.types) >= namesKept {
		clear(n.types)
		clear(n.typeOf)
	}
	n.types[name], n.typeOf[id] = id, name
	r.undo = append(r.undo, func() { delete(n.types, name); delete(n.typeOf, id) })
	return id, nil
}

// typeName is the inverse of typeID.
func (r *round) typeName(id int64) (string, error) {
	n := r.w.names
	if name, ok := n.typeOf[id]; ok {
		return name, nil
	}
	var name string
	if err := r.w.conn.QueryRowContext(context.Background(), "select name from types where id=?", id).Scan(&name); err != nil {
		return "", fmt.Errorf("type %d: %w", id, err)
	}
	n.types[name], n.typeOf[id] = id, name
	return name, nil
}

// workerID returns the number of a worker, made in the round if it is new.
func (r *round) workerID(name string) (int64, error) {
	n := r.w.names
	if id, ok := n.workers[name]; ok {
		return id, nil
	}
	id, err := r.entry(r.w.st.findWorker, r.w.st.addWorker, name, r.now.wall)
	if err != nil {
		return 0, err
	}
	if len(n.workers) >= namesKept {
		clear(n.workers)
	}
	n.workers[name] = id
	r.undo = append(r.undo, func() { delete(n.workers, name) })
	return id, nil
}

// entry finds a name in a dictionary table, or adds it.
func (r *round) entry(find, add *sql.Stmt, name string, more ...any) (int64, error) {
	if err := r.begin(); err != nil {
		return 0, err
	}
	var id int64
	err := find.QueryRow(name).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	res, err := add.Exec(append([]any{name}, more...)...)
	if err != nil {
		return 0, err
	}
	r.dirty = true
	return res.LastInsertId()
}
