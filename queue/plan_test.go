package queue

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

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
		{"reap", expired, "SEARCH jobs USING INDEX leases (at>? AND at<?)"},
		{"due", dueJobs, "SEARCH jobs USING INDEX due (at<?)"},
		{"stale", staleJobs, "SEARCH jobs USING INDEX expiring (expires_at>? AND expires_at<?)"},
		{"retention", oldJobs, "SEARCH jobs USING INDEX finished (queue=? AND state=? AND at<?)"},
		{"next due", nextDue, "SEARCH jobs USING COVERING INDEX due"},
		{"next lease", nextLease, "SEARCH jobs USING COVERING INDEX leases (at>?)"},
		{"next expiry", nextExpiry, "SEARCH jobs USING INDEX expiring (expires_at>?)"},
		{"oldest", "select oldest_queued_at_ms from queue_health", "SEARCH j USING COVERING INDEX claimable (queue=? AND priority=?)"},
		{"dead list", "select id from jobs where " + walkOf(StateDead).where + " order by at desc, id desc limit 100", "SEARCH jobs USING COVERING INDEX finished (queue=? AND state=?)"},
		{"queued list", "select id from jobs where " + claimOrder.where + " order by " + claimOrder.order + " limit 100", "SEARCH jobs USING COVERING INDEX claimable (queue=?)"},
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
				args := make([]any, strings.Count(p.sql, "?"))
				rows, err := conn.Query("explain query plan "+p.sql, args...)
				if err != nil {
					t.Fatal(err)
				}
				defer rows.Close()
				plan := ""
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
				if !strings.Contains(plan, p.want) || strings.Contains(plan, "SCAN jobs") || strings.Contains(plan, "SCAN j\n") || strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("got\n%swant %s and no scan or temporary b-tree", plan, p.want)
				}
			})
		}
	}
}
