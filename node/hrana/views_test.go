package hrana_test

import (
	"strings"
	"testing"

	"holdfast/node/hrana"
)

func TestViews(t *testing.T) {
	s, _ := viewer(t, hrana.AccessView)
	for view, columns := range map[string]string{
		"queue_health": "queue paused scheduled queued running done dead cancelled oldest_queued_at_ms last_error last_error_at_ms",
		"jobs_recent":  "id queue type state priority run failures crashes run_at_ms finished_at_ms last_error",
		"dead_letters": "id queue type failures crashes error_fp last_error finished_at_ms",
		"throughput":   "queue minute_ms enqueued done failed dead",
		"node_status":  "epoch seq committed_at_ms",
	} {
		t.Run(view+" has its columns and rows", func(t *testing.T) {
			result, failed := s.query("select * from " + view)
			if failed != nil {
				t.Fatal(failed)
			}
			var got []string
			for _, c := range result.Cols {
				got = append(got, c.Name)
			}
			if strings.Join(got, " ") != columns || len(result.Rows) == 0 {
				t.Errorf("got %v and %d rows", got, len(result.Rows))
			}
			t.Log(result.Rows)
		})
	}
}
