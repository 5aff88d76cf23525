package tests_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// anything stands for any part of an output in a document.
const anything = "…"

// matchJSON says how the last line of got differs from the shape in a document,
// or "".
func matchJSON(shape, got string) string {
	// A bare … is easier to read than a quoted one, but it is no JSON.
	shape = regexp.MustCompile(`([:,\[]\s*)…`).ReplaceAllString(shape, `$1"…"`)
	if lines := nonEmptyLines(got); len(lines) > 0 {
		got = lines[len(lines)-1]
	}
	var s, g any
	if err := json.Unmarshal([]byte(shape), &s); err != nil {
		return "the shape is no JSON: " + err.Error()
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return "the output is no JSON: " + err.Error()
	}
	return matchValue("", s, g)
}

func matchValue(at string, shape, got any) string {
	switch s := shape.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is no object", at)
		}
		for key, value := range s {
			if _, ok := g[key]; !ok {
				return fmt.Sprintf("%s.%s is not there", at, key)
			}
			if problem := matchValue(at+"."+key, value, g[key]); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if rest := len(s) - 1; ok && rest >= 0 && s[rest] == anything && len(g) >= rest {
			s, g = s[:rest], g[:rest]
		}
		if !ok || len(g) != len(s) {
			return fmt.Sprintf("%s is not an array of %d", at, len(s))
		}
		for i := range s {
			if problem := matchValue(fmt.Sprintf("%s[%d]", at, i), s[i], g[i]); problem != "" {
				return problem
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if s == anything || ok && matchString(s, g) {
			return ""
		}
	case float64:
		if _, ok := got.(float64); ok && strings.HasSuffix(at, "_ms") {
			return ""
		}
	}
	if shape != got {
		return fmt.Sprintf("%s is %v, the document says %v", at, got, shape)
	}
	return ""
}

// matchText says how got differs from the text in a document, or "". Lines and
// blanks count, how many of them does not.
func matchText(shape, got string) string {
	s, g := strings.Join(nonEmptyLines(shape), "\n"), strings.Join(nonEmptyLines(got), "\n")
	if matchString(s, g) {
		return ""
	}
	return fmt.Sprintf("the output is not %q", s)
}

func nonEmptyLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return slices.DeleteFunc(lines, func(s string) bool { return s == "" })
}

// matchString reports whether got is the text in a document, where … is any
// text.
func matchString(shape, got string) bool {
	parts := strings.Split(shape, anything)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

func TestMatch(t *testing.T) {
	jsons := []struct {
		shape, got string
		want       bool
	}{
		{`{"id":"7","at_ms":…}`, `{"id":"7","at_ms":12,"more":1}`, true},
		{`{"id":"7","at_ms":1}`, `{"id":"7","at_ms":12}`, true},
		{`{"id":"7"}`, `{"id":"8"}`, false},
		{`{"id":"7"}`, `{}`, false},
		{`{"lease":"1.7.…"}`, `{"lease":"1.7.1.abc"}`, true},
		{`{"lease":"1.7.…"}`, `{"lease":"1.8.1.abc"}`, false},
		{`{"jobs":[{"run":1}]}`, `{"jobs":[{"run":1}]}`, true},
		{`{"jobs":[{"run":1}]}`, `{"jobs":[{"run":2}]}`, false},
		{`{"jobs":[]}`, `{"jobs":[1]}`, false},
		{`[1, …]`, `[1, 2, 3]`, true},
		{`{"error":null}`, `{"error":null}`, true},
		{`{"error":null}`, `{"error":"x"}`, false},
		{`{"a":1}`, `no JSON`, false},
	}
	for _, tt := range jsons {
		if problem := matchJSON(tt.shape, tt.got); (problem == "") != tt.want {
			t.Errorf("%s and %s: got %q, want a match: %v", tt.shape, tt.got, problem, tt.want)
		}
	}
	texts := []struct {
		shape, got string
		want       bool
	}{
		{"QUEUE QUEUED\nmail 1\n", "QUEUE   QUEUED\nmail    1\n", true},
		{"mail …\n", "mail    1\n", true},
		{"mail 1\n", "mail    2\n", false},
		{"mail 1\n", "mail 1\nthumbs 1\n", false},
		{"mail 1\n…\n", "mail 1\nthumbs 1\n", true},
		{"mail 1\n", "", false},
		{"…mail…\n", "QUEUE QUEUED\nmail 1\n", true},
		{"…mail…\n", "QUEUE QUEUED\nthumbs 1\n", false},
	}
	for _, tt := range texts {
		if problem := matchText(tt.shape, tt.got); (problem == "") != tt.want {
			t.Errorf("%q and %q: got %q, want a match: %v", tt.shape, tt.got, problem, tt.want)
		}
	}
}

func TestSnippets(t *testing.T) {
	got := snippets("text\n```sh skip\na\n```\n\n  ```json\n  {}\n  ```\n")
	want := []snippet{{2, "sh skip", "a\n"}, {6, "json", "  {}\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
