package queue

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"
)

// FuzzRows: whatever row SQL lets into the file, the writer brings it to a
// claimable or a final state, or it waits for a time that it was given.
func FuzzRows(f *testing.F) {
	for state := StateBlocked; state <= StateCancelled; state++ {
		f.Add(int(state), int64(0), int64(0), int64(0), int64(1), 0, 0, int64(0), int64(0), `{"max_attempts":1}`)
		f.Add(int(state), int64(1)<<62, int64(-1)<<62, int64(1)<<40, int64(-5), 1<<30, -1<<30, int64(255), int64(1), `not JSON`)
	}
	f.Add(5, int64(1)<<62, int64(0), int64(0), int64(1), 0, 0, int64(0), int64(0), `{"timeout_ms":-1,"backoff":{"kind":"list"}}`)
	f.Add(5, int64(0), int64(0), int64(0), int64(1), 0, 0, int64(flagCancel|flagOldEpoch|flagGraced), int64(0), ``)
	f.Add(3, int64(0), int64(0), int64(0), int64(1), 0, 0, int64(0), int64(1)<<62, `{"backoff":{"kind":"fixed","base_ms":-9}}`)
	f.Add(4, int64(0), int64(0), int64(0), int64(1), 0, 0, int64(flagPayloadAside), int64(0), `[]`)
	f.Fuzz(fuzzRow)
}

func fuzzRow(t *testing.T, state int, at, runAt, started, run int64, failures, crashes int, flags, expires int64, spec string) {
	if state < int(StateScheduled) || state > int(StateCancelled) {
		return // blocked jobs wait for what is not there yet
	}
	run &= 1<<40 - 1 // counts up from 0
	clock, path := newFakeClock(), filepath.Join(t.TempDir(), "q.db")
	q := openFake(t, path, clock, Options{})
	mustEnqueue(t, q, Spec{Queue: "mail", Type: "t"}, Spec{Queue: "mail", Type: "t"})
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if state == int(StateScheduled) {
		at %= 1_900_000_000_000 // else it may well wait
	}
	if _, err := db.Exec(`update jobs set state=?, at=?, run_at=?, started_at=?, run=?, failures=?, crashes=?, flags=?, expires_at=nullif(?,0), spec=? where id=1`,
		state, at, runAt, started, run, failures, crashes, flags, expires, spec); err != nil {
		return // a row that the schema refuses
	}
	if _, err := db.Exec("update counts set queued=1 where id>0"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("update counts set "+State(state).String()+"="+State(state).String()+"+1 where id>0 and not (?=7 and ?&16)", state, flags); err != nil {
		t.Fatal(err)
	}
	q = openFake(t, path, clock, Options{})
	for range 3 {
		keepHouse(t, q)
		clock.pass(MaxLease + time.Hour)
	}
	clock.pass(10 * 365 * day)
	keepHouse(t, q)
	got, err := q.Job(ctx, 1)
	if err == nil && got.State != StateQueued && !got.State.Final() {
		t.Errorf("the job stays %s: %+v", got.State, got)
	}
	mustRecount(t, q)
	for _, j := range mustClaim(t, q, "mail", 10) { // none holds up the other
		mustAck(t, q, j)
	}
	mustRecount(t, q)
	if j, err := q.Job(ctx, 2); err == nil && j.State != StateDone {
		t.Errorf("the job beside it is %s", j.State)
	}
}
