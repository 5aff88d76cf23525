package node

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// behind is the lag from which a replica counts as exposed although no upload
// failed: one that hangs takes as long to fail.
const behind = 10 * time.Second

// status returns how replication stands; false: there is none.
func (a *API) status() (replicate.Status, bool) {
	r := a.replica.Load()
	if r == nil {
		return replicate.Status{}, false
	}
	return (*r).Status(), true
}

// replication is the part of GET /v1/health about it.
func (a *API) replication(seq queue.Seq, now time.Time) client.Replication {
	wire := client.Replication{Epoch: seq.Epoch, Seq: seq.N}
	if st, ok := a.status(); ok {
		lag := st.Lag(now).Milliseconds()
		wire.LagMS, wire.ReplicatedSeq = &lag, replicatedSeq(&st)
	}
	return wire
}

// replicatedSeq is null where nothing is known to be in the replica.
func replicatedSeq(st *replicate.Status) *int64 {
	if st.ReplicatedSeq == 0 && st.Seq > 0 {
		return nil
	}
	return &st.ReplicatedSeq
}

// warnings says what is exposed.
func (a *API) warnings(now time.Time) []string {
	st, ok := a.status()
	if !ok {
		return nil
	}
	if a.copies != nil {
		return edgeWarnings(&st, now)
	}
	lag := st.Lag(now).Round(time.Second)
	switch {
	case st.Offline:
		return []string{fmt.Sprintf("%s has not been reached since the start, %s ago; what was committed since is on this disk only: %s", st.URL, lag, st.LastError)}
	case st.LastError != "":
		return []string{fmt.Sprintf("replication to %s is held up; what was committed in the last %s is on this disk only: %s", st.URL, lag, st.LastError)}
	case lag >= behind:
		return []string{fmt.Sprintf("replication to %s is behind; what was committed in the last %s is on this disk only", st.URL, lag)}
	}
	return nil
}

// showReplication is GET /v1/replication.
func (a *API) showReplication(s Store, w http.ResponseWriter, _ *http.Request) error {
	st, ok := a.status()
	if !ok {
		return &apiError{code: client.CodeNotFound, message: "this node does not replicate"}
	}
	db, wal := a.sizes()
	var lastError *string
	if st.LastError != "" {
		lastError = &st.LastError
	}
	return a.answer(w, http.StatusOK, client.ReplicationStatus{
		URL: st.URL, Epoch: st.Epoch, Seq: s.Seq().N, ReplicatedSeq: replicatedSeq(&st), TXID: txidText(st.TXID),
		LagMS: st.Lag(time.Now()).Milliseconds(), PendingSinceMS: optionalMS(st.PendingSince), LastSyncAtMS: optionalMS(st.LastSyncAt),
		LastError: lastError, LastErrorAtMS: optionalMS(st.LastErrorAt), Offline: st.Offline,
		LastSnapshotAtMS: optionalMS(st.LastSnapshot), WALBytes: wal, DBBytes: db,
		Requests: client.Requests{Put: st.Requests.Put, Get: st.Requests.Get, List: st.Requests.List, Delete: st.Requests.Delete, SinceMS: sinceMS(st.RequestsSince)},
	})
}

// showNode is GET /v1/node. Another node that boots asks for the session, to
// see whether this one lives.
func (a *API) showNode(w http.ResponseWriter, r *http.Request) error {
	self := a.self.Load()
	if self == nil {
		return &apiError{code: client.CodeUnavailable, message: "the node is starting"}
	}
	wire := *self
	if a.trusts(r) {
		wire.Follows = a.following(time.Now())
	}
	return a.answer(w, http.StatusOK, wire)
}

// sinceMS is 0 for the zero Time.
func sinceMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// txidText writes a TXID as Litestream does.
func txidText(txid uint64) string { return fmt.Sprintf("%016x", txid) }

// sizes returns those of the database and its WAL, in bytes; 0 where there is
// none. It must not open the files, which would drop SQLite's locks.
func (a *API) sizes() (db, wal int64) {
	if a.copies != nil {
		_, _, db := a.copies.newest()
		return db, 0
	}
	path := filepath.Join(a.data, databaseName)
	return sizeOf(path), sizeOf(path + "-wal")
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
