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
	At    []int64 // seconds
	// Jobs a minute.
	Enqueued, Done, Failed, Dead []float64

	total Minute // of the whole span
}

func newChart(minutes []Minute, s span, now time.Time) chart {
	since := s.since(now)
	n := int(s.length/s.step) + 1
	c := chart{Range: s.Name, At: make([]int64, n)}
	c.Enqueued, c.Done, c.Failed, c.Dead = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		c.At[i] = since.Add(time.Duration(i) * s.step).Unix()
	}
	each, steady := s.step.Minutes(), false
	for _, m := range minutes {
		i := int(m.At.Sub(since) / s.step)
		if m.At.Before(since) || i >= n {
			continue
		}
		c.Enqueued[i] += float64(m.Enqueued) / each
		c.Done[i] += float64(m.Done) / each
		c.Failed[i] += float64(m.Failed) / each
		c.Dead[i] += float64(m.Dead) / each
		t := &c.total
		t.Enqueued, t.Done, t.Failed, t.Dead = t.Enqueued+m.Enqueued, t.Done+m.Done, t.Failed+m.Failed, t.Dead+m.Dead
		steady = steady || i < n-1
	}
	if steady { // the last point is not over yet, and would look like a fall
		c.At = c.At[:n-1]
		c.Enqueued, c.Done, c.Failed, c.Dead = c.Enqueued[:n-1], c.Done[:n-1], c.Failed[:n-1], c.Dead[:n-1]
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
	t := c.total
	return fmt.Sprintf("In the last %s: %s enqueued, %s done, %s failed, %s dead.", c.Range, number(t.Enqueued), number(t.Done), number(t.Failed), number(t.Dead))
}
