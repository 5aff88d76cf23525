package queue

import (
	"database/sql"
	"slices"
	"testing"
)

// TestListCuts: a list of any length is cut so that every row comes once, in
// order; only where a second time changes nothing may the last row fill up a
// statement.
func TestListCuts(t *testing.T) {
	q, _, _ := newFake(t)
	run(t, q, func(r *round) {
		for name, l := range map[string]*listStmt{"keeps": r.w.st.insertPayloads, "fills": r.w.st.claim} {
			for n := range 200 {
				var rows, got []any
				for i := range n {
					for range l.width {
						rows = append(rows, i)
					}
				}
				err := l.each([]any{"pre"}, rows, []any{"post"}, func(_ *sql.Stmt, args []any) error {
					if args[0] != "pre" || args[len(args)-1] != "post" || !slices.Contains(sizes[:], (len(args)-2)/l.width) {
						t.Errorf("%s %d: %d parameters", name, n, len(args))
					}
					got = append(got, args[1:len(args)-1]...)
					return nil
				})
				extra := got[min(len(rows), len(got)):]
				if err != nil || !slices.Equal(got[:len(got)-len(extra)], rows) {
					t.Fatalf("%s %d: got %v, %v", name, n, got, err)
				}
				if !l.fills && len(extra) > 0 || slices.ContainsFunc(extra, func(v any) bool { return v != n-1 }) {
					t.Errorf("%s %d: besides, %v", name, n, extra)
				}
			}
		}
	})
}
