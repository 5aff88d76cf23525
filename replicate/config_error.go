package replicate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ConfigError lists everything that is wrong with a configuration, in the order
// of the file. It never contains a secret.
type ConfigError struct {
	Problems []ConfigProblem
}

// ConfigProblem is one thing that is wrong with a configuration.
type ConfigProblem struct {
	File string // empty: the configuration does not come from a file
	Line int    // in File, from 1; 0: no line in particular
	Key  string // such as dbs[0].replica.bucket; empty: the file as a whole
	Text string // what is wrong and, where it is not plain, what to do
}

// Error returns the problems, separated by semicolons.
func (e *ConfigError) Error() string {
	var texts []string
	for _, p := range e.Problems {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}

// String returns the problem as file:line: key: text.
func (p ConfigProblem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	return b.String() + p.Text
}

// configError returns nil if there are no problems.
func configError(problems []ConfigProblem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(a, b ConfigProblem) int { return cmp.Compare(a.Line, b.Line) })
	return &ConfigError{Problems: problems}
}
