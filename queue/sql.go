package queue

import (
	"context"
	"database/sql"
	"errors"
)

// NOT INDEXED in the updates by id is needed: without it, statistics that were
// taken while the file was empty turn them into scans of a partial index.
const (
	insertJobsHead = `insert into jobs(id,state,queue,priority,run_at,at,started_at,worker,flags,type,created_at,expires_at,spec,payload) values `
	insertJobsRow  = `(?,?,?,?,?,?,1099511627776,65536,?,?,?,?,?,?)`

	insertPayloads = `insert into payloads(id,data) values `

	// A key is free when its job is gone, cancelled, archived, or done for longer than KeyLife (the last parameter).
	insertKeysHead = `insert into keys(queue,key,job,body) values `
	insertKeysRow  = `(?,?,?,?)`
	keyHolds       = `exists(select 1 from jobs j where j.id=keys.job and (j.state<6 or (j.state=7 and j.flags&16=0) or (j.state=6 and j.at>?)))`
	insertKeysTail = ` on conflict(queue,key) do update set job=excluded.job, body=excluded.body where not ` + keyHolds

	claimable = `select j.id,j.run,j.type,j.priority,j.run_at,j.created_at,j.failures,j.crashes,j.expires_at,j.flags,j.spec,j.payload
 from jobs j where j.state=4 and j.queue=?+0 order by j.priority desc, j.run_at, j.id`
	claimHead = `with v(i,w,u) as (values `
	claimRow  = `(?,?,?)`
	claimTail = `) update jobs not indexed set state=5, run=run+1, worker=v.w, at=v.u, started_at=? from v where jobs.id=v.i and state=4`

	ackHead = `update jobs not indexed set state=6, at=? where id in (`
	ackTail = `) and run=? and state=5 returning id, queue, started_at`

	setResults  = `insert into outcomes(id,result) values `
	setErrors   = `insert into outcomes(id,last_error) values `
	onResult    = ` on conflict(id) do update set result=excluded.result`
	onError     = ` on conflict(id) do update set last_error=excluded.last_error`
	setProgress = `insert into outcomes(id,progress) values (?,?) on conflict(id) do update set progress=excluded.progress`

	// What a run's end, an extend or the reaper needs to know of a job.
	heldColumns = `id,queue,run,state,failures,crashes,interruptions,started_at,worker,flags,expires_at,spec`
	held        = `select ` + heldColumns + ` from jobs not indexed where id=?`
	expired     = `select ` + heldColumns + ` from jobs where state=5 and at<=? order by at limit ?`

	settle = `update jobs not indexed set state=?, at=?, run_at=coalesce(?,run_at), failures=?, crashes=?, interruptions=?, flags=?, error_fp=coalesce(?,error_fp) where id=?`
	extend = `update jobs not indexed set at=? where id=? and run=? and state=5`

	insertRun = `insert into job_runs(job,run,started_at,ended_at,outcome,worker,error) values (?,?,?,?,?,?,?)`
	trimRuns  = `delete from job_runs where job=? and run<=?`

	dueJobs   = `select id,queue from jobs where state=3 and at<=? order by at limit ?`
	promote   = `update jobs not indexed set state=4, at=1099511627776 where id in (`
	staleJobs = `select ` + heldColumns + ` from jobs where expires_at is not null and state in (3,4) and expires_at<=? order by expires_at limit ?`
	oldJobs   = `select id,flags from jobs where queue=? and state=? and state>=6 and at<=? order by at limit ?`
	// The oldest finished jobs of a state, without the archived ones, which are kept by their age alone.
	oldest     = `select id,flags from jobs where queue=? and state=? and state>=6 and flags&16=0 order by at limit ?`
	deleteJobs = `delete from jobs where id in (`

	// The machine's clock was set.
	shiftLeases = `update jobs set at=at+?, started_at=started_at+? where state=5`

	// By hand.
	deadHead    = `select id,queue,flags from jobs not indexed where state=7 and id in (`
	retryHead   = `update jobs not indexed set state=4, at=1099511627776, run_at=?, failures=0, crashes=0, flags=flags&~18, archived_at=null, expires_at=null where id in (`
	archiveHead = `update jobs not indexed set flags=flags|16, archived_at=? where id in (`

	nextDue     = `select min(at) from jobs where state=3`
	nextLease   = `select min(at) from jobs where state=5`
	nextExpiry  = `select min(expires_at) from jobs where expires_at is not null and state in (3,4)`
	addCounts   = `update counts set blocked=blocked+?, scheduled=scheduled+?, queued=queued+?, running=running+?, done=done+?, dead=dead+?, cancelled=cancelled+?, minute=?, m_in=?, m_out=?, m_failed=?, m_dead=? where id=?`
	closeRound  = `update counts set seq=?, next_id=?, committed_at=? where id=0`
	keepPause   = `insert into meta(k,v) values ('paused_until',?) on conflict(k) do update set v=excluded.v`
	pausedUntil = `select coalesce(max(v),0) from meta where k='paused_until'`
	closeMinute = `insert into minutes(queue,minute,enqueued,done,failed,dead) values (?,?,?,?,?,?) on conflict do update set enqueued=enqueued+excluded.enqueued, done=done+excluded.done, failed=failed+excluded.failed, dead=dead+excluded.dead`
	setQueueErr = `insert into last_errors(queue,at,error) values (?,?,?) on conflict do update set at=excluded.at, error=excluded.error`
)

// statements are the writer's, each prepared once on its connection.
type statements struct {
	single []*sql.Stmt
	lists  []*listStmt

	begin, commit, rollback, savepoint, rollbackTo, releaseTo        *sql.Stmt
	claimable, held, expired, settle, extend, setProgress, insertRun *sql.Stmt
	trimRuns, payload, keyOwner, jobBrief, dueJobs, staleJobs        *sql.Stmt
	nextDue, nextLease, nextExpiry, addCounts, closeRound, keepPause *sql.Stmt
	closeMinute, setQueueErr, oldJobs, deleteKey, oldMinutes         *sql.Stmt
	findType, addType, findWorker, addWorker, addQueue, addCount     *sql.Stmt
	flag, putPayload, dropPayload, setPayload, oldest, shiftLeases   *sql.Stmt
	typeName, seeWorker, deleteWorker, setSettings                   *sql.Stmt

	insertJobs, insertPayloads, insertKeys, claim, ack, setResults, setErrors *listStmt
	promote, deleteJobs, deletePayloads, deleteOutcomes, deleteRuns           *listStmt
	dead, retry, archive                                                      *listStmt
}

func prepare(ctx context.Context, conn *sql.Conn) (*statements, error) {
	s := &statements{}
	single := map[**sql.Stmt]string{
		&s.begin: "begin immediate", &s.commit: "commit", &s.rollback: "rollback",
		&s.savepoint: "savepoint op", &s.rollbackTo: "rollback to op", &s.releaseTo: "release op",
		&s.claimable: claimable, &s.held: held, &s.expired: expired, &s.settle: settle, &s.extend: extend,
		&s.setProgress: setProgress, &s.insertRun: insertRun, &s.trimRuns: trimRuns,
		&s.payload:  "select data from payloads where id=?",
		&s.keyOwner: "select job, body from keys where queue=? and key=?",
		&s.jobBrief: "select state, run_at, created_at from jobs where id=?",
		&s.dueJobs:  dueJobs, &s.staleJobs: staleJobs, &s.oldJobs: oldJobs,
		&s.nextDue: nextDue, &s.nextLease: nextLease, &s.nextExpiry: nextExpiry,
		&s.addCounts: addCounts, &s.closeRound: closeRound, &s.keepPause: keepPause, &s.closeMinute: closeMinute, &s.setQueueErr: setQueueErr,
		&s.deleteKey:  "delete from keys where queue=? and key=? and job=?",
		&s.oldMinutes: "delete from minutes where queue=? and minute<?",
		&s.findType:   "select id from types where name=?", &s.addType: "insert into types(name) values (?)",
		&s.findWorker: "select id from workers where name=?", &s.addWorker: "insert into workers(name,seen_at) values (?,?)",
		&s.addQueue: "insert into queues(name) values (?)", &s.addCount: "insert into counts(id) values (?)",
		&s.oldest: oldest, &s.shiftLeases: shiftLeases,
		&s.typeName:     "select name from types where id=?",
		&s.seeWorker:    "update workers set seen_at=? where id=?",
		&s.deleteWorker: "delete from workers where id=? and seen_at<?",
		&s.setSettings:  "update queues set settings=? where id=?",
		&s.setPayload:   "update jobs not indexed set flags=?, payload=? where id=?",
		&s.flag:         "update jobs not indexed set flags=? where id=?",
		&s.putPayload:   "insert into payloads(id,data) values (?,?) on conflict(id) do update set data=excluded.data",
		&s.dropPayload:  "delete from payloads where id=?",
	}
	for dst, text := range single {
		stmt, err := conn.PrepareContext(ctx, text) //nolint:sqlclosecheck // by close
		if err != nil {
			return s, err
		}
		*dst = stmt
		s.single = append(s.single, stmt)
	}
	lists := map[**listStmt][3]string{
		&s.insertJobs:     {insertJobsHead, insertJobsRow, ""},
		&s.insertPayloads: {insertPayloads, "(?,?)", ""},
		&s.insertKeys:     {insertKeysHead, insertKeysRow, insertKeysTail},
		&s.claim:          {claimHead, claimRow, claimTail},
		&s.ack:            {ackHead, "?", ackTail},
		&s.setResults:     {setResults, "(?,?)", onResult},
		&s.setErrors:      {setErrors, "(?,?)", onError},
		&s.promote:        {promote, "?", ")"},
		&s.dead:           {deadHead, "?", ")"},
		&s.retry:          {retryHead, "?", ")"},
		&s.archive:        {archiveHead, "?", ")"},
		&s.deleteJobs:     {deleteJobs, "?", ")"},
		&s.deletePayloads: {"delete from payloads where id in (", "?", ")"},
		&s.deleteOutcomes: {"delete from outcomes where id in (", "?", ")"},
		&s.deleteRuns:     {"delete from job_runs where job in (", "?", ")"},
	}
	for dst, parts := range lists {
		*dst = newListStmt(conn, parts[0], parts[1], parts[2])
		s.lists = append(s.lists, *dst)
	}
	return s, nil
}

// close lets go of the statements. The connection, and with it the file, would
// stay open for their sake.
func (s *statements) close() error {
	all := s.single
	for _, l := range s.lists {
		for _, stmt := range l.stmts {
			if stmt != nil {
				all = append(all, stmt)
			}
		}
	}
	var errs []error
	for _, stmt := range all {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}
