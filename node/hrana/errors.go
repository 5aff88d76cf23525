package hrana

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Codes of errors, as sqld has them.
const (
	codeNoStatement    = "SQL_NO_STATEMENT"
	codeManyStatements = "SQL_MANY_STATEMENTS"
	codeParse          = "SQL_PARSE_ERROR"
	codeArgs           = "ARGS_INVALID"
	codeBothArgs       = "ARGS_BOTH_POSITIONAL_AND_NAMED"
	codeNoSQL          = "SQL_NOT_FOUND"
	codeSQLStore       = "SQL_STORE_TOO_LARGE"
	codeResponse       = "RESPONSE_TOO_LARGE"
	codeReadOnly       = "SQLITE_READONLY"
	codeAuth           = "SQLITE_AUTH"
	codeInterrupt      = "SQLITE_INTERRUPT"
	codeNoMem          = "SQLITE_NOMEM"
	codeError          = "SQLITE_ERROR"
	codeTooBig         = "SQLITE_TOOBIG"
	codeInternal       = "INTERNAL"
	codeStreamClosed   = "STREAM_CLOSED"
	codeBaton          = "BATON_INVALID"
	codeStreamExpired  = "STREAM_EXPIRED"
	codeProtocol       = "PROTOCOL_ERROR"
)

// stmtError is an error of one statement or request, which the others of a
// pipeline outlive.
type stmtError struct {
	Message string `json:"message"`
	Code    string `json:"code"`
}

func (e *stmtError) Error() string { return e.Message + " (" + e.Code + ")" }

// httpError is an error of a whole HTTP request.
type httpError struct {
	status int
	stmtError
}

// Error makes an httpError print as what it is, not as the error that it holds.
func (e *httpError) Error() string { return http.StatusText(e.status) + ": " + e.Message }

func refuse(status int, code, message string) error {
	return &httpError{status, stmtError{message, code}}
}

// results are SQLite's primary result codes whose message is about the
// statement and may be shown. The others are about the file or the machine: their cause goes
// to the log.
var results = map[int]string{
	sqlite3.SQLITE_ERROR:      codeError,
	sqlite3.SQLITE_READONLY:   codeReadOnly,
	sqlite3.SQLITE_INTERRUPT:  codeInterrupt,
	sqlite3.SQLITE_TOOBIG:     codeTooBig,
	sqlite3.SQLITE_AUTH:       codeAuth,
	sqlite3.SQLITE_CONSTRAINT: "SQLITE_CONSTRAINT",
	sqlite3.SQLITE_MISMATCH:   "SQLITE_MISMATCH",
	sqlite3.SQLITE_RANGE:      "SQLITE_RANGE",
}

// publicError turns an error of the driver into what a client may see; false:
// nothing of it.
func publicError(err error) (*stmtError, bool) {
	if e, ok := errors.AsType[*stmtError](err); ok {
		return e, true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return nil, false
	}
	code, ok := results[e.Code()&0xff]
	if !ok {
		return nil, false
	}
	// "SQL logic error: no such table: x (1)", of which the middle says what
	// is wrong.
	message := e.Error()
	if i := strings.LastIndex(message, " ("); i > 0 {
		message = message[:i]
	}
	message = strings.TrimPrefix(message, "SQL logic error: ")
	return &stmtError{message, code}, true
}

// writeError answers a request. libsql-client-go reads "error", the JavaScript
// clients "message", and those only when the type is exactly this one.
func writeError(w http.ResponseWriter, e *httpError) {
	if e.status == http.StatusServiceUnavailable || e.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	body, err := json.Marshal(struct {
		stmtError
		Error string `json:"error"`
	}{e.stmtError, e.Message})
	if err != nil {
		body = []byte(`{"message":"internal error","code":"INTERNAL","error":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_, _ = w.Write(body) // the client is gone, if anything
}

func isSQLite(err error) bool {
	_, ok := errors.AsType[*sqlite.Error](err)
	return ok
}
