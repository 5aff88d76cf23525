package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"holdfast/node/bench"
)

func TestRunRefuses(t *testing.T) {
	tests := map[string]struct {
		options bench.Options
		want    string
	}{
		"an unknown suite": {bench.Options{Exe: "x", Suite: "htpp"}, "there are: floor, http"},
		"a negative size":  {bench.Options{Exe: "x", Jobs: -1}, "negative"},
		"no binary":        {bench.Options{}, "no binary"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := bench.Run(context.Background(), tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestReportOutput(t *testing.T) {
	r := &bench.Report{
		Suite:   "http",
		Ratios:  map[string]float64{"enqueue_over_naive": 5.25},
		Rates:   map[string]float64{"enqueue": 20000},
		Values:  map[string]float64{},
		Machine: bench.Machine{OS: "linux", CPUs: 2},
	}
	t.Run("JSON is one object with all five parts", func(t *testing.T) {
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var parts map[string]json.RawMessage
		if err := json.Unmarshal(out, &parts); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"suite", "ratios", "rates", "values", "machine"} {
			if len(parts[key]) == 0 {
				t.Errorf("no %q in %s", key, out)
			}
		}
	})
	t.Run("the table names every figure", func(t *testing.T) {
		var out bytes.Buffer
		if err := r.WriteTable(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"suite http", "enqueue_over_naive", "5.25", "20000"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, out.String())
			}
		}
	})
}

func TestRunSaysWhatToInstall(t *testing.T) {
	t.Setenv("HOLDFAST_VERSITYGW", "")
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, t.TempDir())
	}
	for _, suite := range []string{"replication", "all"} {
		_, err := bench.Run(context.Background(), bench.Options{Exe: "x", Suite: suite})
		if err == nil || !strings.Contains(err.Error(), "go install github.com/versity/versitygw") {
			t.Errorf("%s: got %v, want an error that names the server", suite, err)
		}
	}
}
