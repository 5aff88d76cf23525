package replicate

import (
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConfigSize bounds the file in bytes. A mistaken path must not read a
// database into memory.
const maxConfigSize = 256 << 10

// LoadConfig reads a litestream.yml. Relative paths in it are relative to the
// working directory, as the stock program has it. A file that is not right
// yields a [*ConfigError] with all that is wrong.
//
// A configuration that names no database has no replica yet: complete it by
// [Config.ForDatabase].
func LoadConfig(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigSize+1))
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	return ParseConfig(path, data)
}

// ParseConfig is [LoadConfig] for the content of a file; name is what errors
// call it.
func ParseConfig(name string, data []byte) (Config, error) {
	l := &configLoader{cfg: defaults()}
	l.cfg.file, l.cfg.at = name, map[string]place{}
	if len(data) > maxConfigSize {
		l.problem(place{}, fmt.Sprintf("is larger than %d KiB and cannot be a configuration", maxConfigSize>>10))
	} else {
		l.src = newYAMLText(string(data))
		l.load()
	}
	if len(l.problems) == 0 {
		l.problems = l.cfg.check()
	}
	for i := range l.problems {
		l.problems[i].File = name
	}
	if err := configError(l.problems); err != nil {
		return Config{}, err
	}
	return l.cfg, nil
}

// configLoader reads one file and collects what is wrong with it.
type configLoader struct {
	src    *yamlText
	cfg    Config
	global rawReplica // of the top level, for a replica that does not say
	local  rawReplica // of the replica
	dbs    bool       // the file names a database
	at     place      // of its replica
	// dbSnapshot takes what the database says of snapshots.
	dbSnapshot *Snapshot
	used       []envRef // the references that are not in comments
	problems   []ConfigProblem
}

// place is where a setting stands.
type place struct {
	key  string
	line int
}

func (l *configLoader) problem(at place, text string) {
	l.problems = append(l.problems, ConfigProblem{Line: at.line, Key: at.key, Text: text})
}

func (l *configLoader) load() {
	// A variable over several lines would swallow them, a comment's as well.
	for _, r := range l.src.refs {
		if strings.Contains(l.src.text[r.start:r.end], "\n") {
			l.problem(place{line: r.line}, r.wrong)
			return
		}
	}
	text := l.src.render(l.src.token)
	root, err := parseYAML(text)
	if err != nil {
		line, wrong := yamlProblem(text, err)
		l.problem(place{line: line}, l.src.show(wrong))
		return
	}
	if root == nil {
		return
	}
	l.inspect(root)
	if len(l.problems) == 0 {
		l.compare(root)
	}
	l.top(root)
	if len(l.problems) == 0 {
		l.replica()
	}
}

// inspect finds, in the whole tree, references that cannot be replaced, and
// parts of YAML that no configuration needs.
func (l *configLoader) inspect(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		l.problem(place{line: n.Line}, "aliases (*name) are not supported; write the value itself, or put it into quotes")
	case n.Style&yaml.TaggedStyle != 0:
		l.problem(place{line: n.Line}, "tags (!name) are not supported; put a value that begins with ! into quotes")
	case n.Kind == yaml.ScalarNode:
		for _, r := range l.src.within(n.Value) {
			if r.wrong != "" {
				l.problem(place{line: r.line}, r.wrong)
			}
		}
		l.used = append(l.used, l.src.within(n.Value)...)
	}
	for _, child := range n.Content {
		l.inspect(child)
	}
}

// compare checks that values do not change the meaning of the file: the stock
// program would read "a #b" as "a".
func (l *configLoader) compare(root *yaml.Node) {
	full := func(i int) string { return l.src.refs[i].value }
	if l.means(root, full) {
		return
	}
	reported := map[string]bool{}
	// Those in comments come last: they are a problem only with a line break.
	for _, r := range append(l.used, l.src.refs...) {
		one := func(i int) string {
			if l.src.refs[i].name == r.name {
				return full(i)
			}
			return l.src.token(i)
		}
		if !reported[r.name] && !l.means(root, one) {
			reported[r.name] = true
			l.problem(place{line: r.line}, "the value of "+r.name+" holds characters that mean something in YAML here; put the variable into quotes: '${"+r.name+"}'")
		}
	}
	if len(reported) == 0 {
		l.problem(place{}, "the values of variables, put together, change the meaning of the file; put the references into quotes: '${NAME}'")
	}
}

// means reports whether the text with the references replaced has the tree of
// root.
func (l *configLoader) means(root *yaml.Node, replace func(i int) string) bool {
	got, err := parseYAML(l.src.render(replace))
	return err == nil && got != nil && l.equal(root, got)
}

func (l *configLoader) equal(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) || l.src.fill(a.Value) != l.src.fill(b.Value) {
		return false
	}
	for i := range a.Content {
		if !l.equal(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}
