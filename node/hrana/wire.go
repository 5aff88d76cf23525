package hrana

import (
	"encoding/json"
	"fmt"
)

// The forms of requests and answers, as tursodatabase/libsql has them in
// docs/HTTP_V2_SPEC.md and docs/HRANA_3_SPEC.md. Members that we do not know
// are passed over: clients send more of them with every version.

type pipelineRequest struct {
	Baton    string          `json:"baton"`
	Requests []streamRequest `json:"requests"`
}

type streamRequest struct {
	Type  string `json:"type"`
	Stmt  stmt   `json:"stmt"`
	Batch batch  `json:"batch"`
	sqlText
}

// sqlText is SQL as such, or by the id under which the stream stored it.
type sqlText struct {
	SQL   *string `json:"sql"`
	SQLID *int32  `json:"sql_id"`
}

type stmt struct {
	sqlText
	Args      []value    `json:"args"`
	NamedArgs []namedArg `json:"named_args"`
	WantRows  *bool      `json:"want_rows"` // nil: true
}

type namedArg struct {
	Name  string `json:"name"`
	Value value  `json:"value"`
}

type batch struct {
	Steps []step `json:"steps"`
}

type step struct {
	Condition *condition `json:"condition"`
	Stmt      stmt       `json:"stmt"`
}

type cursorRequest struct {
	Baton string `json:"baton"`
	Batch batch  `json:"batch"`
}

// condition decides whether a step of a batch runs.
type condition struct {
	Type  string      `json:"type"`
	Step  int         `json:"step"`
	Cond  *condition  `json:"cond"`
	Conds []condition `json:"conds"`
}

// maxConditionDepth bounds how deep conditions are nested.
const maxConditionDepth = 64

// check reports what is wrong with a condition of the step at index i.
func (c *condition) check(i, depth int) error {
	if depth > maxConditionDepth {
		return fmt.Errorf("the condition of step %d is nested too deep", i)
	}
	switch c.Type {
	case "ok", "error":
		if c.Step < 0 || c.Step >= i {
			return fmt.Errorf("the condition of step %d asks for step %d, which is not before it", i, c.Step)
		}
	case "not":
		if c.Cond == nil {
			return fmt.Errorf("the condition of step %d negates nothing", i)
		}
		return c.Cond.check(i, depth+1)
	case "and", "or":
		for k := range c.Conds {
			if err := c.Conds[k].check(i, depth+1); err != nil {
				return err
			}
		}
	case "is_autocommit":
	default:
		return fmt.Errorf("the condition of step %d has the unknown type %q", i, clip(c.Type))
	}
	return nil
}

type column struct {
	Name     string  `json:"name"`
	Decltype *string `json:"decltype"` // nil: an expression
}

// stmtResult is what a statement returned. Its arrays are never null.
type stmtResult struct {
	Cols             []column          `json:"cols"`
	Rows             []json.RawMessage `json:"rows"`
	AffectedRowCount int               `json:"affected_row_count"`
	LastInsertRowid  *string           `json:"last_insert_rowid"`
	ReplicationIndex *string           `json:"replication_index"`
	RowsRead         int               `json:"rows_read"`
	RowsWritten      int               `json:"rows_written"`
	DurationMS       float64           `json:"query_duration_ms"`
}

func emptyResult() *stmtResult {
	return &stmtResult{Cols: []column{}, Rows: []json.RawMessage{}}
}

type batchResult struct {
	StepResults      []*stmtResult `json:"step_results"`
	StepErrors       []*stmtError  `json:"step_errors"`
	ReplicationIndex *string       `json:"replication_index"`
}

type describeResult struct {
	Params     []param  `json:"params"`
	Cols       []column `json:"cols"`
	IsExplain  bool     `json:"is_explain"`
	IsReadonly bool     `json:"is_readonly"`
}

type param struct {
	Name *string `json:"name"`
}

type streamResult struct {
	Type     string     `json:"type"` // ok, error
	Response any        `json:"response,omitempty"`
	Error    *stmtError `json:"error,omitempty"`
}

// response is that of a request which returns nothing, or one result.
type response struct {
	Type   string `json:"type"`
	Result any    `json:"result,omitempty"`
}

type autocommitResponse struct {
	Type         string `json:"type"`
	IsAutocommit bool   `json:"is_autocommit"`
}

type pipelineAnswer struct {
	Baton   *string        `json:"baton"`
	BaseURL *string        `json:"base_url"`
	Results []streamResult `json:"results"`
}
