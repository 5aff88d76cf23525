package hrana

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// batch runs steps, each if its condition holds. ended, unless nil, is told
// of each step that ran.
func (s *session) batch(b *batch, ended func(i int, result *stmtResult, failed *stmtError) error) (*batchResult, error) {
	if len(b.Steps) > maxRequests {
		return nil, &stmtError{fmt.Sprintf("a batch may have %d steps", maxRequests), codeProtocol}
	}
	for i := range b.Steps {
		if c := b.Steps[i].Condition; c != nil {
			if err := c.check(i, 0); err != nil {
				return nil, &stmtError{err.Error(), codeProtocol}
			}
		}
	}
	out := &batchResult{StepResults: make([]*stmtResult, len(b.Steps)), StepErrors: make([]*stmtError, len(b.Steps))}
	for i := range b.Steps {
		if c := b.Steps[i].Condition; c != nil && !s.holds(c, out) {
			continue
		}
		result, err := s.execute(&b.Steps[i].Stmt)
		failed, isStmt := errors.AsType[*stmtError](err)
		switch {
		case err == nil:
			out.StepResults[i] = result
		case isStmt:
			out.StepErrors[i] = failed
		default:
			return nil, err
		}
		if ended != nil {
			if err := ended(i, out.StepResults[i], failed); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// holds evaluates a condition that check has passed.
func (s *session) holds(c *condition, so *batchResult) bool {
	switch c.Type {
	case "ok":
		return so.StepResults[c.Step] != nil
	case "error":
		return so.StepErrors[c.Step] != nil
	case "not":
		return !s.holds(c.Cond, so)
	case "and":
		for i := range c.Conds {
			if !s.holds(&c.Conds[i], so) {
				return false
			}
		}
		return true
	case "or":
		for i := range c.Conds {
			if s.holds(&c.Conds[i], so) {
				return true
			}
		}
		return false
	}
	return s.stream.autocommit()
}

// cursor is POST /v3/cursor: a batch whose answer is a line of JSON for each
// row. It is put together before it is sent, as it is bounded, and begins with
// the baton, which is known at the end.
func (h *Handler) cursor(s *session, w http.ResponseWriter, r *http.Request) error {
	var req cursorRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	if err := s.resume(req.Baton); err != nil {
		return err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	_, err := s.batch(&req.Batch, func(i int, result *stmtResult, failed *stmtError) error {
		return writeStep(&lines, enc, i, result, failed)
	})
	if e, ok := errors.AsType[*stmtError](err); ok {
		err = enc.Encode(struct {
			Type  string     `json:"type"`
			Error *stmtError `json:"error"`
		}{"error", e})
	}
	if err != nil {
		return err
	}
	baton, err := s.baton()
	if err != nil {
		return err
	}
	head, err := json.Marshal(struct {
		Baton   *string `json:"baton"`
		BaseURL *string `json:"base_url"`
	}{baton, nil})
	if err != nil {
		return err
	}
	return s.answer(w, append(append(head, '\n'), lines.Bytes()...))
}

func writeStep(lines *bytes.Buffer, enc *json.Encoder, i int, result *stmtResult, failed *stmtError) error {
	if failed != nil {
		return enc.Encode(struct {
			Type  string     `json:"type"`
			Step  int        `json:"step"`
			Error *stmtError `json:"error"`
		}{"step_error", i, failed})
	}
	err := enc.Encode(struct {
		Type string   `json:"type"`
		Step int      `json:"step"`
		Cols []column `json:"cols"`
	}{"step_begin", i, result.Cols})
	for _, row := range result.Rows {
		lines.WriteString(`{"type":"row","row":`)
		lines.Write(row)
		lines.WriteString("}\n")
	}
	return errors.Join(err, enc.Encode(struct {
		Type             string  `json:"type"`
		AffectedRowCount int     `json:"affected_row_count"`
		LastInsertRowid  *string `json:"last_insert_rowid"`
	}{"step_end", 0, nil}))
}
