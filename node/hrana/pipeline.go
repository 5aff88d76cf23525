package hrana

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// pipeline is POST /v2/pipeline and /v3/pipeline.
func (h *Handler) pipeline(s *session, w http.ResponseWriter, r *http.Request) error {
	var req pipelineRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	if len(req.Requests) > maxRequests {
		return refuse(http.StatusBadRequest, codeProtocol, fmt.Sprintf("a pipeline may have %d requests", maxRequests))
	}
	if err := s.resume(req.Baton); err != nil {
		return err
	}
	answer := pipelineAnswer{Results: make([]streamResult, len(req.Requests))}
	for i := range req.Requests {
		response, err := s.serve(&req.Requests[i])
		e, isStmt := errors.AsType[*stmtError](err)
		switch {
		case err == nil:
			answer.Results[i] = streamResult{Type: "ok", Response: response}
		case isStmt:
			answer.Results[i] = streamResult{Type: "error", Error: e}
		default:
			return err
		}
	}
	var err error
	if answer.Baton, err = s.baton(); err != nil {
		return err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return s.answer(w, body)
}

// answer sends a body. The snapshot is given back first: a client that reads
// slowly must not hold it.
func (s *session) answer(w http.ResponseWriter, body []byte) error {
	s.header(w.Header())
	s.close()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client is gone, if anything
	return nil
}

// serve handles one request of a pipeline.
func (s *session) serve(req *streamRequest) (any, error) {
	if s.stream.closed {
		return nil, &stmtError{"the stream is closed", codeStreamClosed}
	}
	switch req.Type {
	case "execute":
		result, err := s.execute(&req.Stmt)
		return response{req.Type, result}, err
	case "batch":
		result, err := s.batch(&req.Batch, nil)
		return response{req.Type, result}, err
	case "sequence":
		return response{Type: req.Type}, s.sequence(req.sqlText)
	case "describe":
		result, err := s.describe(req.sqlText)
		return response{req.Type, result}, err
	case "store_sql":
		return response{Type: req.Type}, s.stream.store(req.sqlText)
	case "close_sql":
		if req.SQLID != nil {
			delete(s.stream.SQL, *req.SQLID)
		}
		return response{Type: req.Type}, nil
	case "get_autocommit":
		return autocommitResponse{req.Type, s.stream.autocommit()}, nil
	case "close":
		s.stream = &stream{closed: true}
		return response{Type: req.Type}, nil
	}
	return nil, refuse(http.StatusBadRequest, codeProtocol, fmt.Sprintf("there is no request of the type %q", clip(req.Type)))
}

// sequence runs statements until one fails.
func (s *session) sequence(t sqlText) error {
	text, err := s.stream.text(t)
	if err != nil {
		return err
	}
	if len(text) > maxSQL {
		return &stmtError{fmt.Sprintf("a sequence may have %d bytes", maxSQL), codeTooBig}
	}
	all := split(text)
	if len(all) > maxRequests {
		return &stmtError{fmt.Sprintf("a sequence may have %d statements", maxRequests), codeManyStatements}
	}
	for i := range all {
		if _, err := s.run(&all[i], nil, false); err != nil {
			return err
		}
	}
	return nil
}

// describe says what a statement takes and returns, without running it.
func (s *session) describe(t sqlText) (*describeResult, error) {
	text, err := s.stream.text(t)
	if err != nil {
		return nil, err
	}
	st, err := single(text)
	if err != nil {
		return nil, err
	}
	result := &describeResult{Params: []param{}, Cols: []column{}, IsExplain: st.tokens[0].is("explain"), IsReadonly: true}
	if aside := *s.stream; aside.controls(st) {
		return result, nil
	}
	if err := admit(st); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	for _, name := range st.params() {
		result.Params = append(result.Params, param{name})
	}
	err = s.guarded(st, func(c *conn) error {
		cols, err := c.ColumnInfo(st.text)
		for _, col := range cols {
			result.Cols = append(result.Cols, newColumn(col.Name, col.DeclType))
		}
		return err
	})
	return result, err
}
