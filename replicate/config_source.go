package replicate

import (
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlText is the text of a configuration file with its references to
// environment variables.
//
// The stock program puts the values of variables into the text and reads the
// result as YAML, comments included. So do we, in effect, but by way of a text
// with a token in the place of each reference: its tree tells the references
// that count from those in comments, and no value can get into an error.
type yamlText struct {
	text string
	refs []envRef
	mark string // begins each token; it occurs neither in text nor in a value
}

// envRef is a $VAR or ${VAR} in the text.
type envRef struct {
	start, end int // in bytes
	line       int
	name       string // of the variable
	value      string
	wrong      string // why it cannot be replaced; empty: it can
}

func newYAMLText(text string) *yamlText {
	s := &yamlText{text: text, refs: findVariables(text), mark: "HfRef"}
	for s.contains(s.mark) {
		s.mark += "x"
	}
	return s
}

func (s *yamlText) contains(mark string) bool {
	for _, r := range s.refs {
		if strings.Contains(r.value, mark) {
			return true
		}
	}
	return strings.Contains(s.text, mark)
}

// token stands for reference i. Letters and digits are plain in every context
// of YAML.
func (s *yamlText) token(i int) string { return s.mark + strconv.Itoa(i) + "z" }

// render returns the text with each reference replaced.
func (s *yamlText) render(replace func(i int) string) string {
	var b strings.Builder
	from := 0
	for i, r := range s.refs {
		b.WriteString(s.text[from:r.start])
		b.WriteString(replace(i))
		from = r.end
	}
	b.WriteString(s.text[from:])
	return b.String()
}

// fill puts the values of variables in the place of tokens.
func (s *yamlText) fill(text string) string {
	return s.swap(text, func(r envRef) string { return r.value })
}

// show is what a person may see of a value: the references as they were written.
func (s *yamlText) show(text string) string {
	return s.swap(text, func(r envRef) string { return s.text[r.start:r.end] })
}

func (s *yamlText) swap(text string, by func(envRef) string) string {
	if !strings.Contains(text, s.mark) {
		return text
	}
	var pairs []string
	for i, r := range s.refs {
		pairs = append(pairs, s.token(i), by(r))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// within returns the references in a scalar.
func (s *yamlText) within(text string) []envRef {
	if !strings.Contains(text, s.mark) {
		return nil
	}
	var out []envRef
	for i, r := range s.refs {
		if strings.Contains(text, s.token(i)) {
			out = append(out, r)
		}
	}
	return out
}

// findVariables finds what the stock program replaces, by the rules of os.Expand.
func findVariables(text string) []envRef {
	var out []envRef
	line, counted := 1, 0
	for i := 0; i < len(text); i++ {
		if text[i] != '$' {
			continue
		}
		name, width, wrong := variableAt(text[i+1:])
		if width == 0 {
			continue // a lone $ stays
		}
		line += strings.Count(text[counted:i], "\n")
		counted = i
		r := envRef{start: i, end: i + 1 + width, line: line, name: name, wrong: wrong}
		if wrong == "" {
			r.value, r.wrong = lookupVariable(name)
		}
		out = append(out, r)
		i = r.end - 1
	}
	return out
}

// variableAt reads what follows a $; its width is 0 if that is no reference.
func variableAt(s string) (name string, width int, wrong string) {
	word := len(s) - len(strings.TrimLeftFunc(s, isWord))
	switch {
	case s == "":
		return "", 0, ""
	case s[0] == '{':
		inner, _, closed := strings.Cut(s[1:], "}")
		if !closed {
			return "", 1, "${ is not closed"
		}
		word := inner[:len(inner)-len(strings.TrimLeftFunc(inner, isWord))]
		return word, len(inner) + 2, wrongName(inner, word)
	case strings.ContainsRune("*#$@!?-0123456789", rune(s[0])):
		return "", 1, "$" + s[:1] + " would be replaced by nothing; for a value with a $ in it, set a variable and write ${NAME}"
	}
	return s[:word], word, ""
}

// wrongName says why what stands between braces names no variable.
func wrongName(inner, word string) string {
	switch {
	case strings.Contains(inner, "\n"):
		return "${ is not closed on its line"
	case inner == "":
		return "${} names no variable"
	case word == "" || word[0] <= '9':
		return "${…} does not hold the name of a variable"
	case word != inner:
		return "${" + word + "…}: only a name may stand between the braces (the stock program would put nothing in its place, no default); set " + word + " and write ${" + word + "}"
	}
	return ""
}

// lookupVariable returns a variable as the stock program sees it.
func lookupVariable(name string) (value, wrong string) {
	if name == "PID" {
		return strconv.Itoa(os.Getpid()), ""
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", "the environment variable " + name + " is not set"
	}
	return value, ""
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

var (
	errSecondDocument = errors.New("a second document begins with ---; one is read")
	yamlLine          = regexp.MustCompile(`^line (\d+): `)
	yamlAnchor        = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)
)

// parseYAML returns the root of the only document, or nil if there is none.
func parseYAML(text string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errSecondDocument
	}
	return doc.Content[0], nil
}

// yamlProblem takes a syntax error in text apart, without what it quotes of it.
func yamlProblem(text string, err error) (line int, wrong string) {
	wrong = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(wrong); m != nil {
		line, _ = strconv.Atoi(m[1])
		wrong = wrong[len(m[0]):]
	}
	if m := yamlAnchor.FindStringSubmatch(wrong); m != nil {
		before, _, _ := strings.Cut(text, "*"+m[1])
		line = strings.Count(before, "\n") + 1
		wrong = "an alias (*) refers to nothing; put a value that begins with * into quotes"
	}
	return line, "not valid YAML: " + wrong
}
