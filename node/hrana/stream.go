package hrana

import (
	"slices"
	"strings"
)

// Bounds of what a stream keeps for a client.
const (
	maxSavepoints = 100
	maxStored     = 64 << 10 // bytes of SQL that is stored, in all
)

// stream is what a client and we know of its stream: nothing of it is in
// SQLite. Transactions of a database that is only read are flags.
type stream struct {
	Begun  bool             `json:"b,omitempty"` // by BEGIN
	Points []string         `json:"p,omitempty"` // savepoints, in lower case
	SQL    map[int32]string `json:"q,omitempty"` // stored by store_sql
	closed bool
}

// empty reports whether there is nothing that a baton would have to keep.
func (s *stream) empty() bool {
	return s.closed || s.autocommit() && len(s.SQL) == 0
}

func (s *stream) autocommit() bool { return !s.Begun && len(s.Points) == 0 }

// text resolves the SQL of a request.
func (s *stream) text(t sqlText) (string, error) {
	switch {
	case t.SQL != nil && t.SQLID != nil:
		return "", &stmtError{"both sql and sql_id are given", codeProtocol}
	case t.SQL != nil:
		return *t.SQL, nil
	case t.SQLID != nil:
		if sql, ok := s.SQL[*t.SQLID]; ok {
			return sql, nil
		}
		return "", &stmtError{"no SQL is stored under this sql_id", codeNoSQL}
	}
	return "", &stmtError{"neither sql nor sql_id is given", codeProtocol}
}

// store is store_sql.
func (s *stream) store(t sqlText) error {
	if t.SQL == nil || t.SQLID == nil {
		return &stmtError{"store_sql needs sql and sql_id", codeProtocol}
	}
	if _, taken := s.SQL[*t.SQLID]; taken {
		return &stmtError{"SQL is stored under this sql_id already", codeProtocol}
	}
	size := len(*t.SQL)
	for _, sql := range s.SQL {
		size += len(sql)
	}
	if size > maxStored || len(s.SQL) >= 1000 {
		return &stmtError{"the stream stores too much SQL; close some", codeSQLStore}
	}
	if s.SQL == nil {
		s.SQL = map[int32]string{}
	}
	s.SQL[*t.SQLID] = *t.SQL
	return nil
}

// control runs a statement that begins or ends a transaction or a savepoint;
// false: it is none.
func (s *stream) control(st *statement) (bool, error) {
	words := make([]string, len(st.tokens))
	for i, t := range st.tokens {
		words[i] = t.name()
	}
	if st.tokens[0].kind != tokenWord {
		return false, nil
	}
	switch words[0] {
	case "begin":
		return true, s.begin(st, words[1:])
	case "commit", "end":
		if !only(words[1:], "transaction") {
			return true, syntaxError(st)
		}
		return true, s.finish("commit")
	case "rollback":
		rest := slices.DeleteFunc(words[1:], func(w string) bool { return w == "transaction" })
		if len(rest) == 0 {
			return true, s.finish("rollback")
		}
		if rest = after(rest, "to"); rest == nil {
			return true, syntaxError(st)
		}
		return true, s.cut(st, optional(rest, "savepoint"), 1)
	case "savepoint":
		return true, s.savepoint(st, words[1:])
	case "release":
		return true, s.cut(st, optional(words[1:], "savepoint"), 0)
	}
	return false, nil
}

// controls reports whether control is for the statement. It changes s.
func (s *stream) controls(st *statement) bool {
	is, _ := s.control(st) // whether it would succeed is not asked
	return is
}

func (s *stream) begin(st *statement, words []string) error {
	if !only(words, "deferred", "immediate", "exclusive", "concurrent", "readonly", "transaction") {
		return syntaxError(st)
	}
	if !s.autocommit() {
		return &stmtError{"cannot start a transaction within a transaction", codeError}
	}
	s.Begun = true
	return nil
}

func (s *stream) finish(how string) error {
	if s.autocommit() {
		return &stmtError{"cannot " + how + " - no transaction is active", codeError}
	}
	s.Begun, s.Points = false, nil
	return nil
}

func (s *stream) savepoint(st *statement, words []string) error {
	if len(words) != 1 || words[0] == "" || len(words[0]) > 100 {
		return syntaxError(st)
	}
	if len(s.Points) >= maxSavepoints {
		return &stmtError{"too many savepoints", codeError}
	}
	s.Points = append(s.Points, words[0])
	return nil
}

// cut drops the savepoints from the last of a name on, but for keep of them.
func (s *stream) cut(st *statement, words []string, keep int) error {
	if len(words) != 1 || words[0] == "" {
		return syntaxError(st)
	}
	for i, name := range slices.Backward(s.Points) {
		if name == words[0] {
			s.Points = s.Points[:i+keep]
			return nil
		}
	}
	return &stmtError{"no such savepoint: " + clip(words[0]), codeError}
}

// only reports whether all words are among these.
func only(words []string, these ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(these, w) })
}

// after returns what follows the first word, or nil.
func after(words []string, first string) []string {
	if len(words) > 1 && words[0] == first {
		return words[1:]
	}
	return nil
}

// optional takes a first word away where it is not the last too.
func optional(words []string, first string) []string {
	if rest := after(words, first); rest != nil {
		return rest
	}
	return words
}

func syntaxError(st *statement) error {
	first, _, _ := strings.Cut(st.text, "\n")
	return &stmtError{"near \"" + clip(first) + "\": syntax error", codeError}
}
