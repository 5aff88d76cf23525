package queue

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// AuditLife is how long an audit entry is kept.
const AuditLife = 365 * 24 * time.Hour

// Audit says who asks for a change by hand, and for what.
type Audit struct {
	Token  int64  // id of the access token; 0: the caller had none of the file's
	Actor  string // its name, or what stands in its place
	Remote string // the address that the request came from
	Action string // such as "job.cancel"
	Target string // such as a job's id or a queue's name
	Detail string // JSON with what else there is to say; may be empty
}

// AuditEntry is an Audit of what was done.
type AuditEntry struct {
	ID    int64
	At    time.Time
	Count int64 // how many things were changed
	Audit
}

type auditKey struct{}

// WithAudit makes the change by hand that is called with the context leave an
// entry in the audit trail, in the same commit: there is an entry if and only
// if the change took effect.
func WithAudit(ctx context.Context, a Audit) context.Context {
	return context.WithValue(ctx, auditKey{}, &a)
}

func auditOf(ctx context.Context) *Audit {
	a, _ := ctx.Value(auditKey{}).(*Audit)
	return a
}

// Note leaves the entry of WithAudit for something that changes nothing in the
// file.
//
// Errors: ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) Note(ctx context.Context) error {
	return q.do(ctx, &op{admin: func(*round) error { return nil }})
}

// audit writes the entry of an operation that succeeded.
func (r *round) audit(o *op) error {
	a := o.audit
	if a == nil || o.count == 0 {
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	r.dirty = true
	var token, detail any
	if a.Token != 0 {
		token = a.Token
	}
	if a.Detail != "" {
		detail = a.Detail
	}
	if _, err := r.w.conn.ExecContext(context.Background(),
		"insert into audit(at, token, actor, remote, action, target, count, detail) values (?, ?, ?, ?, ?, ?, ?, ?)",
		r.now.wall, token, a.Actor, a.Remote, a.Action, a.Target, o.count, detail); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// AuditTrail returns the entries before an id (0: from the newest on), newest
// first; limit is from 1 to MaxPage.
//
// Errors: *SpecError, ErrClosed, ctx.Err().
func (q *Queue) AuditTrail(ctx context.Context, before int64, limit int) (entries []AuditEntry, err error) {
	if limit < 1 || limit > MaxPage {
		return nil, &SpecError{"limit", fmt.Sprintf("must be from 1 to %d", MaxPage)}
	}
	err = q.eachRow(ctx, func(rows *sql.Rows) error {
		var e AuditEntry
		var at int64
		err := rows.Scan(&e.ID, &at, &e.Token, &e.Actor, &e.Remote, &e.Action, &e.Target, &e.Count, &e.Detail)
		e.At = time.UnixMilli(at)
		entries = append(entries, e)
		return err
	}, `select id, at, coalesce(token, 0), actor, remote, action, target, count, coalesce(detail, '') from audit
 where ?1 = 0 or id < ?1 order by id desc limit ?2`, before, limit)
	return entries, err
}

// sweepAudit deletes entries that are older than AuditLife, in steps from the
// oldest on. Their ids rise with the time, so it looks at a step of them when
// none is that old.
func (q *Queue) sweepAudit(ctx context.Context) error {
	for {
		deleted := int64(0)
		err := q.do(ctx, &op{admin: func(r *round) (err error) {
			deleted, err = r.deleteAudit()
			return err
		}})
		if err != nil || deleted < freeAtOnce {
			return err
		}
	}
}

func (r *round) deleteAudit() (int64, error) {
	if r.next.paused > r.now.mono { // the clock is in doubt
		return 0, nil
	}
	if err := r.begin(); err != nil {
		return 0, err
	}
	res, err := r.w.conn.ExecContext(context.Background(),
		"delete from audit where id in (select id from (select id, at from audit order by id limit ?) where at < ?)",
		freeAtOnce, r.now.wall-AuditLife.Milliseconds())
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	r.dirty = r.dirty || n > 0
	return n, err
}
