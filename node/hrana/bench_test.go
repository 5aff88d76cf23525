package hrana_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"holdfast/node/hrana"
)

// BenchmarkHealth reads the health of a queue over HTTP from 16 connections.
func BenchmarkHealth(b *testing.B) {
	s, _ := viewer(b, hrana.AccessView)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	body := `{"requests":[` + execute("select queue, queued, running, dead, oldest_queued_at_ms from queue_health where queue = ?", `{"type":"text","value":"mail"}`) + `]}`
	b.SetParallelism(8) // times the processors
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Post(s.url+"/v2/pipeline", "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"rows":[[`) {
				b.Errorf("got %d, %s, %v", resp.StatusCode, text, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
