package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// span is how far back a chart looks.
type span struct {
	Name   string
	length time.Duration
	step   time.Duration // of a point
}

var (
	lastHour = span{"hour", time.Hour, time.Minute}
	lastDay  = span{"day", 24 * time.Hour, 15 * time.Minute}
)

func spanOf(r *http.Request) span {
	if r.URL.Query().Get("range") == "day" {
		return lastDay
	}
	return lastHour
}

func (s span) since(now time.Time) time.Time { return now.Truncate(s.step).Add(-s.length) }

// chart is what happened in a span, in jobs a minute.
type chart struct {
	Range string
	Empty bool
	At    []int64 // seconds
	// Jobs a minute.
	Enqueued, Done, Failed, Dead []float64
}

func newChart(minutes []Minute, s span, now time.Time) chart {
	since := s.since(now)
	n := int(s.length/s.step) + 1
	c := chart{Range: s.Name, Empty: true, At: make([]int64, n)}
	c.Enqueued, c.Done, c.Failed, c.Dead = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		c.At[i] = since.Add(time.Duration(i) * s.step).Unix()
	}
	each := s.step.Minutes()
	for _, m := range minutes {
		i := int(m.At.Sub(since) / s.step)
		if m.At.Before(since) || i >= n {
			continue
		}
		c.Enqueued[i] += float64(m.Enqueued) / each
		c.Done[i] += float64(m.Done) / each
		c.Failed[i] += float64(m.Failed) / each
		c.Dead[i] += float64(m.Dead) / each
		c.Empty = c.Empty && m.Enqueued+m.Done+m.Failed+m.Dead == 0
	}
	return c
}

// Data is the chart for the script: the times, then each line.
func (c chart) Data() (string, error) {
	text, err := json.Marshal([]any{c.At, c.Enqueued, c.Done, c.Failed, c.Dead})
	return string(text), err
}

// Peak is the highest point.
func (c chart) Peak() float64 {
	peak := 0.0
	for _, line := range [][]float64{c.Enqueued, c.Done, c.Failed, c.Dead} {
		for _, v := range line {
			peak = max(peak, v)
		}
	}
	return peak
}

// The size of the picture that is there without the script, in its own units.
const pictureWidth, pictureHeight = 600, 120

// points are a line of the picture.
func (c chart) points(line []float64) string {
	peak := max(c.Peak(), 1)
	var b strings.Builder
	for i, v := range line {
		x := float64(i) / float64(max(len(line)-1, 1)) * pictureWidth
		fmt.Fprintf(&b, "%.1f,%.1f ", x, pictureHeight-2-v/peak*(pictureHeight-4))
	}
	return b.String()
}

// Lines are the lines of the picture, by the class that colours them.
func (c chart) Lines() map[string]string {
	return map[string]string{"enqueued": c.points(c.Enqueued), "done": c.points(c.Done), "failed": c.points(c.Failed), "dead": c.points(c.Dead)}
}

// Summary says in words what the chart shows.
func (c chart) Summary() string {
	sum := func(line []float64) int64 {
		each, total := lastHour.step, 0.0
		if c.Range == lastDay.Name {
			each = lastDay.step
		}
		for _, v := range line {
			total += v * each.Minutes()
		}
		return int64(total + 0.5)
	}
	return fmt.Sprintf("In the last %s: %s enqueued, %s done, %s failed, %s dead.",
		c.Range, number(sum(c.Enqueued)), number(sum(c.Done)), number(sum(c.Failed)), number(sum(c.Dead)))
}
