package hrana

import (
	"strings"

	"modernc.org/sqlite"
)

// guard decides, while SQLite compiles one statement of a client, what of it
// may be. It is SQLite's authorizer: what it does not know is denied.
//
// It goes by the base table and its columns, never by what a view is called: a
// common table expression may be called as a view is.
type guard struct {
	stmt      *statement
	access    Access
	recursion bool // the statement's own tables do not refer to themselves

	denied *stmtError // why it was denied; nil when it was not
}

func newGuard(s *statement, access Access) *guard {
	return &guard{
		stmt:      s,
		access:    access,
		recursion: !s.recursive() && s.names(recursiveView),
	}
}

var errReadOnly = &stmtError{"this database is read only", codeReadOnly}

// authorize is the authorizer of one statement.
func (g *guard) authorize(action sqlite.AuthorizerActionCode, arg1, arg2, database, view string) sqlite.AuthorizerReturnCode {
	switch action {
	case sqlite.AuthSelect:
		return sqlite.AuthorizerOK
	case sqlite.AuthRead:
		return g.read(lowerASCII(arg1), lowerASCII(arg2), database, view)
	case sqlite.AuthFunction:
		if functions[lowerASCII(arg2)] {
			return sqlite.AuthorizerOK
		}
		return g.deny("the function " + clip(arg2) + " is not available here")
	case sqlite.AuthRecursive:
		// The view of the file is; a statement of a client must not be, since a
		// loop without an end costs memory at each turn.
		if g.recursion {
			return sqlite.AuthorizerOK
		}
		return g.deny("recursive queries are not available here")
	case sqlite.AuthPragma:
		bare, known := pragmas[lowerASCII(arg1)]
		if known && (!bare || arg2 == "") {
			return sqlite.AuthorizerOK
		}
		return g.deny("this pragma is not available here")
	case sqlite.AuthAttach, sqlite.AuthDetach:
		return g.deny("other databases are not available here")
	case sqlite.AuthTransaction, sqlite.AuthSavepoint:
		return g.deny("transactions are not available here")
	}
	g.denied = errReadOnly
	return sqlite.AuthorizerDeny
}

// read decides about a column. IGNORE makes it NULL wherever it stands, also in
// conditions and orders, so that nothing of it can be found out.
func (g *guard) read(table, column, database, view string) sqlite.AuthorizerReturnCode {
	columns, known := tables[table]
	if !known && column == "" && database == "" && g.stmt.defines(table) {
		return sqlite.AuthorizerOK // a table of the statement's own, of which no column is read
	}
	if !known || database != "" && !strings.EqualFold(database, "main") {
		return g.deny("the table " + clip(table) + " is not available here")
	}
	switch {
	case table == secretsTable && column == secretsColumn && (g.stmt.names(secretsTable) || view != epochView):
		// meta keeps the node's keys beside its epoch. Where a statement does
		// not name it, only a view of the file can come to it.
		return sqlite.AuthorizerIgnore
	case columns[column] == forPayload && g.access < AccessPayload:
		return sqlite.AuthorizerIgnore
	}
	return sqlite.AuthorizerOK
}

func (g *guard) deny(message string) sqlite.AuthorizerReturnCode {
	g.denied = &stmtError{message, codeAuth}
	return sqlite.AuthorizerDeny
}

// clip bounds a name of the client's in a message.
func clip(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}

// admit refuses a statement by its first word where SQLite would not ask the
// authorizer, or would say something that helps less.
func admit(s *statement) error {
	if strings.IndexByte(s.text, 0) >= 0 {
		return &stmtError{"the statement has a NUL byte", codeParse}
	}
	switch first := s.tokens[0]; {
	case s.recursive():
		return &stmtError{"recursive queries are not available here", codeAuth}
	case s.writes():
		return errReadOnly
	case s.has("using", "natural"):
		// SQLite makes up the columns of such a join without asking, and so
		// tells whether a hidden one has some value.
		return &stmtError{"joins by USING and NATURAL are not available here; write ON", codeAuth}
	case first.is("attach"), first.is("detach"):
		return &stmtError{"other databases are not available here", codeAuth}
	}
	return nil
}

// writes reports whether the statement begins as one that changes something.
func (s *statement) writes() bool {
	for _, word := range []string{"insert", "update", "delete", "replace", "create", "drop", "alter", "reindex", "analyze", "vacuum"} {
		if s.tokens[0].is(word) {
			return true
		}
	}
	return false
}
