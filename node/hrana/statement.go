package hrana

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

// names reports whether the statement mentions a name, in whatever quotes.
func (s *statement) names(name string) bool {
	return slices.ContainsFunc(s.tokens, func(t token) bool { return t.name() == name })
}

// has reports whether one of the words is in the statement.
func (s *statement) has(words ...string) bool {
	return slices.ContainsFunc(s.tokens, func(t token) bool {
		return slices.ContainsFunc(words, t.is)
	})
}

// tableOf is a common table expression: its name, in lower case, and its body.
type tableOf struct {
	name string
	body []token
}

// own yields what looks like the statement's common table expressions.
func (s *statement) own() iter.Seq[tableOf] {
	return func(yield func(tableOf) bool) {
		for i, t := range s.tokens {
			if !t.is("as") {
				continue
			}
			open := i + 1
			for open < len(s.tokens) && (s.tokens[open].is("not") || s.tokens[open].is("materialized")) {
				open++
			}
			if open == len(s.tokens) || !s.tokens[open].sign('(') {
				continue
			}
			if name := s.nameBefore(i); name != "" && !yield(tableOf{name, s.tokens[open:s.closing(open)]}) {
				return
			}
		}
	}
}

// defines reports whether a common table expression has this name.
func (s *statement) defines(name string) bool {
	for t := range s.own() {
		if t.name == name {
			return true
		}
	}
	return false
}

// recursive reports whether a common table expression of the statement may
// refer to itself, which is what makes it recursive; the word RECURSIVE is
// not needed for that. In SQLite the name must then be in the body. What only
// looks like it is taken for it.
func (s *statement) recursive() bool {
	for i, t := range s.tokens {
		if t.is("with") && i+1 < len(s.tokens) && s.tokens[i+1].is("recursive") {
			return true
		}
	}
	for t := range s.own() {
		if slices.ContainsFunc(t.body, func(inner token) bool { return inner.name() == t.name }) {
			return true
		}
	}
	return false
}

// nameBefore returns the name before the token at i, past a list of columns.
func (s *statement) nameBefore(i int) string {
	i--
	if i >= 0 && s.tokens[i].sign(')') {
		for depth := 0; i >= 0; i-- {
			if s.tokens[i].sign(')') {
				depth++
			} else if s.tokens[i].sign('(') {
				depth--
			}
			if depth == 0 {
				break
			}
		}
		i--
	}
	if i < 0 {
		return ""
	}
	return s.tokens[i].name()
}

// closing returns the index of the parenthesis that closes the one at open, or
// the end.
func (s *statement) closing(open int) int {
	depth := 0
	for i := open; i < len(s.tokens); i++ {
		if s.tokens[i].sign('(') {
			depth++
		} else if s.tokens[i].sign(')') {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(s.tokens)
}

// maxParams is SQLite's own default.
const maxParams = 32766

// params returns the names of the statement's parameters, with their prefix;
// nil stands for one without a name.
func (s *statement) params() []*string {
	var all []*string
	grow := func(n int) {
		for len(all) < min(n, maxParams) {
			all = append(all, nil)
		}
	}
	seen := map[string]bool{}
	for _, t := range s.tokens {
		if t.kind != tokenVariable {
			continue
		}
		if digits, ok := strings.CutPrefix(t.text, "?"); ok {
			if digits == "" {
				grow(len(all) + 1)
			} else if n, err := strconv.Atoi(digits); err == nil && n >= 1 && n <= maxParams {
				grow(n)
				name := t.text
				all[n-1] = &name
			}
			continue
		}
		if !seen[t.text] && len(all) < maxParams {
			seen[t.text] = true
			name := t.text
			all = append(all, &name)
		}
	}
	return all
}
