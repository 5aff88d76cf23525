package replicate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"go.yaml.in/yaml/v3"
)

// field takes the value of a key. Its place is that of the value.
type field func(at place, n *yaml.Node)

// section reads a mapping. Each key is one of known, or it is reported with the
// advice that fits the kind of section.
func (l *configLoader) section(at place, kind string, n *yaml.Node, known map[string]field) {
	if n.Kind == yaml.AliasNode {
		return // reported by inspect
	}
	if n.Kind != yaml.MappingNode {
		l.problem(at, "a mapping is expected: lines of key: value, indented")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := l.src.show(key.Value)
		here := place{strings.TrimPrefix(at.key+"."+name, "."), key.Line}
		if key.Kind != yaml.ScalarNode {
			l.problem(place{at.key, key.Line}, "a key is expected, not a list or a mapping")
			continue
		}
		if first, again := seen[name]; again {
			l.problem(here, fmt.Sprintf("is set twice, first on line %d", first))
			continue
		}
		seen[name] = key.Line
		take, ok := known[name]
		switch {
		case !ok:
			l.problem(here, advise(kind, name))
		case l.isNull(value): // the same as no such key
		default:
			take(place{here.key, value.Line}, value)
		}
	}
}

// list reads a sequence.
func (l *configLoader) list(at place, n *yaml.Node, item field) int {
	if n.Kind == yaml.AliasNode {
		return 0 // reported by inspect
	}
	if n.Kind != yaml.SequenceNode {
		l.problem(at, "a list is expected: lines that begin with a dash")
		return 0
	}
	for i, child := range n.Content {
		item(place{fmt.Sprintf("%s[%d]", at.key, i), child.Line}, child)
	}
	return len(n.Content)
}

func (l *configLoader) isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && isPlain(n) &&
		slices.Contains([]string{"", "~", "null", "Null", "NULL"}, l.src.fill(n.Value))
}

func isPlain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// scalar returns the value of n, unless it is none or was already reported.
func (l *configLoader) scalar(at place, n *yaml.Node) (string, bool) {
	if n.Kind == yaml.AliasNode {
		return "", false // reported by inspect
	}
	if n.Kind != yaml.ScalarNode {
		l.problem(at, "one value is expected, not a list or a mapping")
		return "", false
	}
	for _, r := range l.src.within(n.Value) {
		if r.wrong != "" {
			return "", false
		}
	}
	value := l.src.fill(n.Value)
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		l.problem(at, "the value holds a line break or another control character")
		return "", false
	}
	return value, true
}

// unfit reports a value, as it was written.
func (l *configLoader) unfit(at place, n *yaml.Node, want string) {
	got := []rune(l.src.show(n.Value))
	if len(got) > 40 {
		got = append(got[:40], '…')
	}
	l.problem(at, fmt.Sprintf("got %q, want %s", string(got), want))
}

// text sets a string. name is the setting's for [Config.Validate].
func (l *configLoader) text(to *string, name string) field {
	return func(at place, n *yaml.Node) {
		if value, ok := l.scalar(at, n); ok {
			*to = value
			l.cfg.at[name] = at
		}
	}
}

// secret is text that remembers which variable it comes from.
func (l *configLoader) secret(to, variable *string, name string) field {
	return func(at place, n *yaml.Node) {
		l.text(to, name)(at, n)
		if refs := l.src.within(n.Value); len(refs) == 1 && l.src.fill(n.Value) == refs[0].value {
			*variable = refs[0].name
		}
	}
}

func (l *configLoader) duration(to *time.Duration, name string) field {
	return func(at place, n *yaml.Node) {
		value, ok := l.scalar(at, n)
		if !ok {
			return
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			l.unfit(at, n, "a duration with its unit, such as 10s, 5m or 24h")
			return
		}
		*to = d
		l.cfg.at[name] = at
	}
}

// boolean takes what YAML 1.1 does, which the stock program reads.
func (l *configLoader) boolean(to **bool, name string) field {
	return func(at place, n *yaml.Node) {
		value, ok := l.scalar(at, n)
		if !ok {
			return
		}
		var b bool
		switch strings.ToLower(value) {
		case "true", "yes", "on", "y":
			b = true
		case "false", "no", "off", "n":
		default:
			ok = false
		}
		if !ok || !isPlain(n) {
			l.unfit(at, n, "true or false, without quotes")
			return
		}
		*to = &b
		l.cfg.at[name] = at
	}
}

func (l *configLoader) integer(to *int, name string) field {
	return func(at place, n *yaml.Node) {
		value, ok := l.scalar(at, n)
		if !ok {
			return
		}
		i, err := strconv.ParseInt(value, 10, 32)
		if err != nil || !isPlain(n) {
			l.unfit(at, n, "a whole number, without quotes")
			return
		}
		*to = int(i)
		l.cfg.at[name] = at
	}
}

func (l *configLoader) size(to *int64, name string) field {
	return func(at place, n *yaml.Node) {
		value, ok := l.scalar(at, n)
		if !ok {
			return
		}
		size, err := humanize.ParseBytes(value)
		if err != nil || size > math.MaxInt64 {
			l.unfit(at, n, "a size such as 8MiB")
			return
		}
		*to = int64(size)
		l.cfg.at[name] = at
	}
}
