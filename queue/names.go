package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// names are the dictionaries behind the integers in a job's row, and what the
// writer knows of each queue. Queues stay in memory.
type names struct {
	queues  map[string]*queueState
	byID    map[int64]*queueState
	order   []*queueState // by id
	types   *dictionary
	workers *dictionary
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

const namesKept = 10_000 // of a dictionary in memory

// dictionary is a table of names, and those of them that are in memory. When
// they become many all are forgotten, and looked up again.
type dictionary struct {
	ids           map[string]int64
	names         map[int64]string
	find, add, by *sql.Stmt
	touch         *sql.Stmt // nil, or what is done with an entry that was found
	forgotten     int       // how often
}

func newDictionary(find, add, by, touch *sql.Stmt) *dictionary {
	return &dictionary{ids: map[string]int64{}, names: map[int64]string{}, find: find, add: add, by: by, touch: touch}
}

func (d *dictionary) keep(name string, id int64) {
	if len(d.ids) >= namesKept {
		clear(d.ids)
		clear(d.names)
		d.forgotten++
	}
	d.ids[name], d.names[id] = id, name
}

// loadNames reads the queues with their counts.
func loadNames(ctx context.Context, conn *sql.Conn, st *statements) (*names, error) {
	n := &names{
		queues: map[string]*queueState{}, byID: map[int64]*queueState{},
		types:   newDictionary(st.findType, st.addType, st.typeName, nil),
		workers: newDictionary(st.findWorker, st.addWorker, nil, st.seeWorker),
	}
	rows, err := conn.QueryContext(ctx, `select q.id, q.name, q.settings, c.blocked, c.scheduled, c.queued, c.running, c.done, c.dead, c.cancelled,
 c.minute, c.m_in, c.m_out, c.m_failed, c.m_dead from queues q join counts c on c.id = q.id order by q.id`)
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
		n.put(q)
	}
	return n, rows.Err()
}

func (n *names) put(q *queueState) {
	n.queues[q.name], n.byID[q.id] = q, q
	n.order = append(n.order, q)
}

// drop takes the queue that was made last out again.
func (n *names) drop(q *queueState) {
	delete(n.queues, q.name)
	delete(n.byID, q.id)
	n.order = n.order[:len(n.order)-1]
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
	r.w.names.put(q)
	r.undo = append(r.undo, func() { r.w.names.drop(q) })
	r.dirty = true
	return q, nil
}

// typeID returns the number of a job type, made in the round if it is new.
func (r *round) typeID(name string) (int64, error) { return r.entry(r.w.names.types, name, name) }

// workerID returns the number of a worker, made in the round if it is new.
func (r *round) workerID(name string) (int64, error) {
	return r.entry(r.w.names.workers, name, name, r.now.wall)
}

// typeName is the inverse of typeID.
func (r *round) typeName(id int64) (string, error) {
	d := r.w.names.types
	if name, ok := d.names[id]; ok {
		return name, nil
	}
	var name string
	if err := d.by.QueryRow(id).Scan(&name); err != nil {
		return "", fmt.Errorf("type %d: %w", id, err)
	}
	d.keep(name, id)
	return name, nil
}

// entry returns the number of a name, which is made of row if it is new.
func (r *round) entry(d *dictionary, name string, row ...any) (int64, error) {
	if id, ok := d.ids[name]; ok {
		return id, nil
	}
	if err := r.begin(); err != nil {
		return 0, err
	}
	var id int64
	err := d.find.QueryRow(name).Scan(&id)
	switch {
	case err == nil && d.touch != nil:
		r.dirty = true
		_, err = d.touch.Exec(r.now.wall, id)
	case errors.Is(err, sql.ErrNoRows):
		r.dirty = true
		var res sql.Result
		if res, err = d.add.Exec(row...); err == nil {
			id, err = res.LastInsertId()
		}
	}
	if err != nil {
		return 0, err
	}
	d.keep(name, id)
	r.undo = append(r.undo, func() { delete(d.ids, name); delete(d.names, id) })
	return id, nil
}
