package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON prints v as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// table prints rows in columns, the first being the headings.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// ago says when a time was or will be, as seen from now, such as "3m ago".
func ago(ms int64, now time.Time) string {
	d := now.Sub(time.UnixMilli(ms))
	switch {
	case d < -time.Second:
		// Rounded up, so that what was just put off by 5 m is said to come in 5m.
		return "in " + short((-d + time.Second - 1).Truncate(time.Second))
	case d < time.Second:
		return "now"
	}
	return short(d) + " ago"
}

// agoOr is ago for a time that may not have come.
func agoOr(ms *int64, now time.Time, none string) string {
	if ms == nil {
		return none
	}
	return ago(*ms, now)
}

// short writes a duration in its largest unit, as a person says it.
func short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// oneLine is the first line of text for a table, cut to a width in runes.
func oneLine(text string, width int) string {
	text, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	// A tab or another control character would break the columns, or act on
	// the terminal.
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	if more {
		return text + " …"
	}
	return text
}

// when prints a time in full and from now.
func when(ms int64, now time.Time) string {
	return time.UnixMilli(ms).Format(time.RFC3339) + " (" + ago(ms, now) + ")"
}
