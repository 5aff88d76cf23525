package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// parsePages returns each page with the layout.
func parsePages() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions()).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html"))
	names, err := fs.Glob(pageFiles, "pages/*.html")
	if err != nil {
		panic(err)
	}
	pages := map[string]*template.Template{}
	for _, path := range names {
		name := strings.TrimSuffix(strings.TrimPrefix(path, "pages/"), ".html")
		if name != "layout" && name != "parts" {
			pages[name] = template.Must(template.Must(shared.Clone()).ParseFS(pageFiles, path))
		}
	}
	return pages
}

func functions() template.FuncMap {
	return template.FuncMap{
		"n":      number,
		"bytes":  size,
		"when":   when,
		"rate":   func(f float64) string { return strconv.FormatFloat(f, 'f', rateDigits(f), 64) },
		"exact":  exact,
		"took":   took,
		"pretty": pretty,
		"first":  firstLine,
		"query":  query,
		"plural": plural,
	}
}

// number writes a count with thin groups of three digits, which screen readers
// read as one number.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return number(n) + " " + one
	}
	return number(n) + " " + many
}

func size(n int64) string {
	const units = "KMGT"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, i := float64(n)/1000, 0
	for f >= 999.5 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if f < 10 {
		return fmt.Sprintf("%.1f %cB", f, units[i])
	}
	return fmt.Sprintf("%.0f %cB", f, units[i])
}

// took writes a duration with the two units that matter.
func took(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Span writes a setting, whose exact value counts: whole days, hours, minutes or
// seconds where it is that.
func Span(d time.Duration) string {
	for _, unit := range []struct {
		is        time.Duration
		one, many string
	}{{24 * time.Hour, "day", "days"}, {time.Hour, "hour", "hours"}, {time.Minute, "minute", "minutes"}, {time.Second, "second", "seconds"}} {
		if d >= unit.is && d%unit.is == 0 {
			return plural(int64(d/unit.is), unit.one, unit.many)
		}
	}
	return d.String()
}

// ago writes a time as seen from now.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d > -time.Second && d < 2*time.Second:
		return "just now"
	case d < 0:
		return "in " + brief(-d)
	}
	return brief(d) + " ago"
}

// when writes a time as seen from now, with the exact one on hover.
func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "never"
	}
	// Nothing but digits and our own words goes into it.
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, //nolint:gosec // see above
		t.UTC().Format("2006-01-02T15:04:05.000Z"), exact(t), ago(t, time.Now())))
}

// rateDigits is how many digits of a rate mean something.
func rateDigits(f float64) int {
	if f == 0 || f >= 10 {
		return 0
	}
	return 1
}

// brief writes a duration with one unit.
func brief(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}

func exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// shownJSON bounds what a page shows of a payload.
const shownJSON = 64 << 10

// pretty writes JSON for a person, or its beginning.
func pretty(text json.RawMessage) string {
	if len(text) > shownJSON {
		return strings.ToValidUTF8(string(text[:shownJSON]), "") + "…"
	}
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}

// firstLine is the beginning of an error, for a row of a table.
func firstLine(s string) string {
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	const most = 160
	if r := []rune(s); len(r) > most {
		s, more = string(r[:most]), true
	}
	if more {
		s += " …"
	}
	return s
}

// query writes the query string of pairs of a name and a value, without those
// whose value is empty.
func query(pairs ...any) (template.URL, error) {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if text := fmt.Sprint(pairs[i+1]); text != "" {
			values.Set(fmt.Sprint(pairs[i]), text)
		}
	}
	if len(values) == 0 {
		return "", nil
	}
	return template.URL("?" + values.Encode()), nil //nolint:gosec // encoded by net/url
}
