package tests_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// documented are the metrics that design and README promise.
var documented = []string{
	"holdfast_build_info", "holdfast_checkpoints_total", "holdfast_db_bytes", "holdfast_job_run_seconds", "holdfast_job_wait_seconds",
	"holdfast_jobs_cancelled_total", "holdfast_jobs_claimed_total", "holdfast_jobs_dead_total", "holdfast_jobs_done_total", "holdfast_jobs_enqueued_total",
	"holdfast_jobs_failed_total", "holdfast_lease_held", "holdfast_queue_jobs", "holdfast_queue_oldest_ready_seconds", "holdfast_queue_paused",
	"holdfast_replication_lag_seconds", "holdfast_sqlite_busy_total", "holdfast_wal_bytes", "holdfast_writer_busy_seconds_total", "holdfast_writer_rounds_total",
}

// scrape returns what /metrics answers, and the names that it has types for.
func scrape(t *testing.T, n *node) (text string, names []string) {
	t.Helper()
	resp, err := http.Get(n.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)`).FindAllStringSubmatch(string(body), -1) {
		names = append(names, m[1])
		if m[2] == "histogram" {
			names = append(names, m[1]+"_bucket", m[1]+"_sum", m[1]+"_count")
		}
	}
	return string(body), names
}

// named are the metrics of ours in the expressions of a file.
func named(text string) []string {
	found := regexp.MustCompile(`\bholdfast_[a-z0-9_]+`).FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestMetricNames(t *testing.T) {
	n := serve(t, filepath.Join(t.TempDir(), "data"))
	fillPages(t, clientOf(t, n, ""))
	text, names := scrape(t, n)
	has := func(t *testing.T, what string, wanted []string) {
		t.Helper()
		if len(wanted) == 0 {
			t.Errorf("%s names no metric", what)
		}
		for _, name := range wanted {
			if !slices.Contains(names, name) {
				t.Errorf("%s has %s, which a node does not", what, name)
			}
		}
	}
	t.Run("a node has all that are documented, and Litestream's", func(t *testing.T) {
		has(t, "the documentation", documented)
		has(t, "the documentation", []string{"litestream_db_size", "litestream_txid"})
	})
	t.Run("they count", func(t *testing.T) {
		for _, line := range []string{
			`holdfast_jobs_enqueued_total{queue="billing"} 25`, `holdfast_jobs_claimed_total{queue="billing"} 25`, `holdfast_jobs_dead_total{queue="billing"} 25`,
			`holdfast_jobs_failed_total{queue="billing"} 25`, `holdfast_jobs_done_total{queue="mail"} 35`, `holdfast_job_run_seconds_count{queue="mail"} 35`,
			`holdfast_job_wait_seconds_count{queue="images"} 9`, `holdfast_lease_held 1`, `holdfast_sqlite_busy_total 0`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("not there: %s", line)
			}
		}
	})
	t.Run("the alert rules and the dashboard of Grafana know no others", func(t *testing.T) {
		rules, err := os.ReadFile(filepath.Join(root, "deploy", "alerts.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed any
		if err := yaml.Unmarshal(rules, &parsed); err != nil {
			t.Errorf("alerts.yml: %v", err)
		}
		has(t, "alerts.yml", named(string(rules)))
		grafana, err := os.ReadFile(filepath.Join(root, "deploy", "grafana.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(grafana, &parsed); err != nil {
			t.Errorf("grafana.json: %v", err)
		}
		has(t, "grafana.json", named(string(grafana)))
	})
	t.Run("promtool accepts the rules and the metrics", func(t *testing.T) {
		needTool(t, "promtool")
		mustRun(t, exec.Command("promtool", "check", "rules", filepath.Join(root, "deploy", "alerts.yml")))
		cmd := exec.Command("promtool", "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if code, stdout, stderr := run(t, cmd); code != 0 && strings.Contains(stdout+stderr, "holdfast_") {
			t.Errorf("promtool check metrics: %d\n%s%s", code, stdout, stderr)
		}
	})
}
