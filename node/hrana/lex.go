package hrana

import "strings"

// The lexical form of SQL, as far as the guard needs it: where statements end,
// what names they mention, and what parameters they have. SQLite parses them
// again, under the authorizer; nothing is let through because of what is read
// here, except where guard.go says so.

type tokenKind uint8

const (
	tokenWord     tokenKind = iota // a keyword or a bare name
	tokenQuoted                    // 'x', "x", `x` or [x]: each can be a name
	tokenBlob                      // x'00'
	tokenNumber                    // 1, 1.5, 0x10
	tokenVariable                  // ?, ?1, :a, @a, $a
	tokenSign                      // any other single byte
)

type token struct {
	kind tokenKind
	text string
}

// is reports whether t is the keyword or bare name word, in lower case.
func (t token) is(word string) bool {
	return t.kind == tokenWord && len(t.text) == len(word) && strings.EqualFold(t.text, word)
}

func (t token) sign(b byte) bool { return t.kind == tokenSign && t.text[0] == b }

// name is what t means as a name, in lower case, or "". SQLite takes a string
// in single quotes for a name too, where only a name can stand, and folds
// the case of ASCII alone.
func (t token) name() string {
	switch t.kind {
	case tokenWord:
		return lowerASCII(t.text)
	case tokenQuoted:
		open, text := t.text[0], t.text[1:]
		if open == '[' {
			return lowerASCII(strings.TrimSuffix(text, "]"))
		}
		quote := string(open)
		return lowerASCII(strings.ReplaceAll(strings.TrimSuffix(text, quote), quote+quote, quote))
	}
	return ""
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// statement is one of those in a text.
type statement struct {
	text   string // without the semicolon
	tokens []token
}

// split cuts a text into its statements. Those that are empty are left out.
func split(sql string) []statement {
	var all []statement
	var tokens []token
	begin := -1 // of the first token of this statement
	end := 0    // of its last one
	flush := func() {
		if begin >= 0 {
			all = append(all, statement{sql[begin:end], tokens})
		}
		tokens, begin = nil, -1
	}
	for pos := 0; pos < len(sql); {
		kind, n, space := next(sql[pos:])
		text := sql[pos : pos+n]
		switch {
		case space:
		case kind == tokenSign && text == ";":
			flush()
		default:
			if begin < 0 {
				begin = pos
			}
			end = pos + n
			tokens = append(tokens, token{kind, text})
		}
		pos += n
	}
	flush()
	return all
}

// next returns the kind and the length of what s, which is not empty, begins
// with. Blanks and comments are space.
func next(s string) (kind tokenKind, n int, space bool) {
	switch b := s[0]; {
	case isSpace(b):
		return 0, 1, true
	case strings.HasPrefix(s, "--"):
		return 0, through(s, "\n", 2), true
	case strings.HasPrefix(s, "/*"):
		return 0, through(s, "*/", 2), true
	case b == '\'' || b == '"' || b == '`':
		return tokenQuoted, quoted(s), false
	case b == '[':
		return tokenQuoted, through(s, "]", 1), false
	case (b == 'x' || b == 'X') && len(s) > 1 && s[1] == '\'':
		return tokenBlob, through(s, "'", 2), false
	case '0' <= b && b <= '9':
		return tokenNumber, word(s, "."), false
	case isNameByte(b) && b != '$':
		return tokenWord, word(s, ""), false
	case b == '?':
		return tokenVariable, 1 + word(s[1:], ""), false
	case b == ':' || b == '@' || b == '$' || b == '#':
		if n := variable(s); n > 1 {
			return tokenVariable, n, false
		}
	}
	return tokenSign, 1, false
}

// through returns the length of s up to and with the first end from byte from
// on, or all of it.
func through(s, end string, from int) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(s)
}

// quoted returns the length of what begins with a quote; a doubled one is part
// of it.
func quoted(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] != s[0] {
			continue
		}
		if i+1 < len(s) && s[i+1] == s[0] {
			i++
			continue
		}
		return i + 1
	}
	return len(s)
}

func word(s, also string) int {
	n := 0
	for n < len(s) && (isNameByte(s[n]) || strings.IndexByte(also, s[n]) >= 0) {
		n++
	}
	return n
}

// variable returns the length of a parameter with a name. The name may hold ::
// and end with something in parentheses, as variables of Tcl do.
func variable(s string) int {
	n := 1
	for n < len(s) {
		switch {
		case isNameByte(s[n]):
			n++
		case strings.HasPrefix(s[n:], "::"):
			n += 2
		case s[n] == '(' && n > 1:
			end := strings.IndexAny(s[n:], ") \t\n\v\f\r")
			if end < 0 || s[n+end] != ')' {
				return n
			}
			return n + end + 1
		default:
			return n
		}
	}
	return n
}

func isSpace(b byte) bool {
	return b == ' ' || '\t' <= b && b <= '\r'
}

func isNameByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '$' || b >= 0x80
}
