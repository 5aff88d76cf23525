package queue

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// listText is the statement of a page of a list.
func listText(f Filter, next bool) string {
	l, err := f.listing()
	if err != nil {
		panic(err)
	}
	if !next {
		return l.text("")
	}
	return l.text(l.walk.after[0])
}

// TestClaimPlan pins how SQLite finds rows, on a file without statistics and
// on one whose statistics were taken while it was empty, which is when SQLite
// thinks a partial index is worth a scan.
func TestClaimPlan(t *testing.T) {
	row := func(head, row, tail string) string { return head + row + "," + row + tail }
	plans := []struct{ name, sql, want string }{
		{"claimable", claimable, "SEARCH j USING INDEX claimable (queue=?)"},
		{"claim", row(claimHead, claimRow, claimTail), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"ack", row(ackHead, "?", ackTail), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"held", held, "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"settle", settle, "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"extend", extend, "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"promote", row(promote, "?", ")"), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"reap", expired, "SEARCH jobs USING INDEX leases (at<?)"},
		{"due", dueJobs, "SEARCH jobs USING INDEX due (at<?)"},
		{"stale", staleJobs, "SEARCH jobs USING INDEX expiring (expires_at>? AND expires_at<?)"},
		{"retention", oldJobs, "SEARCH jobs USING INDEX finished (queue=? AND state=? AND at<?)"},
		{"next due", nextDue, "SEARCH jobs USING COVERING INDEX due"},
		{"next lease", nextLease, "SEARCH jobs USING COVERING INDEX leases"},
		{"next expiry", nextExpiry, "SEARCH jobs USING INDEX expiring (expires_at>?)"},
		{"oldest", "select oldest_queued_at_ms from queue_health", "SEARCH j USING COVERING INDEX claimable (queue=? AND priority=?)"},
		{"dead list", listText(Filter{State: StateDead}, false), "SEARCH jobs USING INDEX finished (queue=? AND state=?)"},
		{"dead list, next page", listText(Filter{State: StateDead, After: "1_1"}, true), "SEARCH jobs USING INDEX finished (queue=? AND state=? AND at<?)"},
		{"dead list of an error", listText(Filter{State: StateDead, ErrorFP: "0000000000000001"}, false), "SEARCH jobs USING INDEX dead (queue=? AND error_fp=?)"},
		{"queued list", listText(Filter{State: StateQueued}, false), "SEARCH jobs USING INDEX claimable (queue=?)"},
		{"queued list, next page", listText(Filter{State: StateQueued, After: "1_1_1"}, true), "SEARCH jobs USING INDEX claimable (queue=? AND priority=? AND run_at>?)"},
		{"scheduled list, next page", listText(Filter{State: StateScheduled, After: "1_1"}, true), "SEARCH jobs USING INDEX due (at>?)"},
		{"running list, next page", listText(Filter{State: StateRunning, After: "1_1"}, true), "SEARCH jobs USING INDEX leases (at>?)"},
		{"keep-last retention", oldest, "SEARCH jobs USING INDEX finished (queue=? AND state=?)"},
		{"groups of dead jobs", groupsByIndex, "SEARCH jobs USING COVERING INDEX dead (queue=?)"},
		{"retry of many", row(retryHead, "?", ")"), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"archive of many", row(archiveHead, "?", ")"), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
		{"dead by id", row(deadHead, "?", ")"), "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"},
	}
	for _, analyzed := range []bool{false, true} {
		q, err := Open(context.Background(), filepath.Join(t.TempDir(), "q.db"), Options{DiskWatermark: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		conn := q.read
		if analyzed {
			if err := q.do(context.Background(), &op{admin: func(r *round) error {
				_, err := r.w.conn.ExecContext(context.Background(), "analyze")
				return err
			}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range plans {
			name := p.name
			if analyzed {
				name += " after analyze on an empty file"
			}
			t.Run(name, func(t *testing.T) {
				plan := planOf(t, conn, p.sql)
				if !strings.Contains(plan, p.want) || strings.Contains(plan, "SCAN jobs") || strings.Contains(plan, "SCAN j\n") || strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("got\n%swant %s and no scan or temporary b-tree", plan, p.want)
				}
			})
		}
	}
}

// TestGroupPlans: the groups of some dead jobs are sorted, but only rows that
// may be of them are looked at.
func TestGroupPlans(t *testing.T) {
	q, err := Open(context.Background(), filepath.Join(t.TempDir(), "q.db"), Options{DiskWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for text, want := range map[string]string{
		groupsByRow:   "SEARCH j USING INDEX dead (queue=?)",
		groupsOfError: "SEARCH j USING INDEX dead (queue=? AND error_fp=?)",
	} {
		if plan := planOf(t, q.read, text); !strings.Contains(plan, want) {
			t.Errorf("got\n%swant %s", plan, want)
		}
	}
}

func planOf(t *testing.T, conn *sql.DB, text string) (plan string) {
	t.Helper()
	args := make([]any, strings.Count(text, "?"))
	rows, err := conn.Query("explain query plan "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan += detail + "\n"
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}
