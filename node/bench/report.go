package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
)

// Report is what a suite measured. Its JSON is the output of
// `holdfast bench --json`; the keys of the maps are a contract with those who
// compare runs.
type Report struct {
	Suite   string             `json:"suite"`
	Ratios  map[string]float64 `json:"ratios"` // ours over a yardstick, medians of interleaved pairs
	Rates   map[string]float64 `json:"rates"`  // jobs a second
	Values  map[string]float64 `json:"values"` // in the unit that the key ends in
	Machine Machine            `json:"machine"`
}

func newReport(suite string, m Machine) *Report {
	return &Report{
		Suite: suite, Machine: m,
		Ratios: map[string]float64{}, Rates: map[string]float64{}, Values: map[string]float64{},
	}
}

// WriteTable writes r for a person.
func (r *Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	m := r.Machine
	fmt.Fprintf(w, "suite %s on %s/%s, %d CPUs, %s, %.0f fsyncs/s\n", r.Suite, m.OS, m.Arch, m.CPUs, m.Go, m.FsyncsPerS)
	section := func(title, format string, values map[string]float64) {
		if len(values) == 0 {
			return
		}
		fmt.Fprintf(tw, "\n%s\t\t\n", title)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(tw, "%s\t"+format+"\t\n", key, values[key])
		}
	}
	section("ratio", "%.2f", r.Ratios)
	section("jobs/s", "%.0f", r.Rates)
	section("value", "%.2f", r.Values)
	return tw.Flush()
}

// median returns the middle of values, rounded to three digits after the
// point, and 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	m := (s[(len(s)-1)/2] + s[len(s)/2]) / 2
	return math.Round(m*1000) / 1000
}
