package hrana_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/node/hrana"
)

const (
	queryTime = 2 * time.Second // of the package
	// slack is what a loaded machine may need on top; the limit itself is kept
	// within half a second.
	slack     = 4 * time.Second
	maxGrowth = 160 << 20 // bytes; a sort without bounds takes gigabytes
)

// cross is a join of n tables of ten rows.
func cross(n int) string {
	const ten = "(values (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) t"
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprint(ten, i)
	}
	return strings.Join(parts, " cross join ")
}

func TestExpensive(t *testing.T) {
	if slowed {
		t.Skip("times and memory are those of the product, without the race detector")
	}
	s, _ := viewer(t, hrana.AccessView)
	const big = "printf('%.100000c', 'x')"
	wide := "(select " + big + " || random() as y from " + cross(8) + ")"
	for _, tt := range []struct{ outcome, code, sql string }{
		{"a join without end is interrupted", "SQLITE_INTERRUPT", "select count(*) from " + cross(12)},
		{"a slow second row is interrupted", "SQLITE_INTERRUPT", "select 1 union all select count(*) from " + cross(12)},
		{"a join of views is interrupted", "SQLITE_INTERRUPT", "select count(*) from jobs_recent" + strings.Repeat(", jobs_recent", 20)},
		{"long strings are interrupted", "SQLITE_INTERRUPT", "select sum(length(concat_ws(" + big + ", 1, 2))) from " + cross(8)},
		{
			"two long arrays are interrupted", "SQLITE_INTERRUPT",
			"select count(*) from json_each('[" + strings.Repeat("1,", 40_000) + "1]') a, json_each('[" + strings.Repeat("1,", 5000) + "1]') b",
		},
		{"a sort of wide rows is too large", "SQLITE_NOMEM", "select y from " + wide + " order by y"},
		{"distinct wide rows are too large", "SQLITE_NOMEM", "select distinct y from " + wide + " order by y limit 1"},
		{"a count of distinct wide rows is too large", "SQLITE_NOMEM", "select count(distinct y) from " + wide},
		{"a materialized table is too large", "SQLITE_NOMEM", "with m as materialized " + wide + " select count(*) from m a, m b"},
		{"a group of wide rows is too large", "SQLITE_NOMEM", "select length(group_concat(y)) from " + wide + " group by y"},
		{"a union of many rows is too large", "SQLITE_NOMEM", "select count(*) from (select 1 from " + cross(8) + " union select random() from " + cross(8) + ")"},
		{"many rows are too many", "RESPONSE_TOO_LARGE", "select * from " + cross(5)},
		{"wide rows are too much", "RESPONSE_TOO_LARGE", "select " + big + " from " + cross(3)},
		{"a search in long strings ends", "", "select instr(" + big + ", printf('%.50000c', 'x') || 'y')"},
		{"a pattern in long strings ends", "", "select " + big + " like '%' || printf('%.250c', 'x') || 'y'"},
		{"a long list ends", "", "select count(*) from jobs where id in (1" + strings.Repeat(",1", 40_000) + ")"},
	} {
		t.Run(tt.outcome, func(t *testing.T) {
			s := &server{t, s.url}
			growth := watchMemory(t)
			begun := time.Now()
			_, failed := s.query(tt.sql)
			took, grown := time.Since(begun), growth()
			if (failed == nil) != (tt.code == "") || failed != nil && failed.Code != tt.code && !timed(tt.code, failed.Code) {
				t.Errorf("got %+v, want %s", failed, tt.code)
			}
			if took > queryTime+slack {
				t.Errorf("it took %s", took)
			}
			if grown > maxGrowth {
				t.Errorf("it took %d MiB", grown>>20)
			}
			t.Logf("%s, %d MiB", took.Round(time.Millisecond), grown>>20)
		})
	}
	t.Run("the connections serve on", func(t *testing.T) {
		s := &server{t, s.url}
		if rows := s.rows("select count(*) from queue_health"); rows[0][0].Value != "2" {
			t.Errorf("got %v", rows)
		}
	})
}

// timed reports whether a query that would need too much memory was slow, as on
// a loaded machine, and ran into its deadline first.
func timed(want, got string) bool { return want == "SQLITE_NOMEM" && got == "SQLITE_INTERRUPT" }

// watchMemory returns a function that says how much more memory the process
// held at most than now.
func watchMemory(t *testing.T) func() int64 {
	t.Helper()
	resident := func() (pages int64) {
		var all int64
		text, err := os.ReadFile("/proc/self/statm")
		if err == nil {
			_, err = fmt.Sscan(string(text), &all, &pages)
		}
		if err != nil {
			return 0 // no Linux: nothing is measured
		}
		return pages * int64(os.Getpagesize())
	}
	before := resident()
	peak := before
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, resident())
			}
		}
	})
	return func() int64 {
		close(stop)
		wg.Wait()
		return peak - before
	}
}

func TestTooManyQueries(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	slow := execute("select count(*) from " + cross(12))
	body := `{"requests":[` + slow + `]}`
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 {
		wg.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v3/pipeline", strings.NewReader(body))
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	// Until the four are under way a fifth may still find room.
	status, header := 0, http.Header{}
	for end := time.Now().Add(queryTime + slack); status != http.StatusServiceUnavailable && time.Now().Before(end); {
		status, header, _ = s.post("/v3/pipeline", `{"requests":[`+execute("select 1")+`]}`)
	}
	cancel()
	wg.Wait()
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("a fifth query got %d, %v", status, header)
	}
	// The clients hung up, so their queries end before their time.
	begun := time.Now()
	s.rows("select 1")
	t.Logf("free after %s", time.Since(begun))
}

func TestBodyLimit(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	status, _, text := s.post("/v2/pipeline", `{"requests":[`+execute("select '"+strings.Repeat("x", 1<<20)+"'")+`]}`)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "REQUEST_TOO_LARGE") {
		t.Errorf("got %d, %s", status, text)
	}
}
