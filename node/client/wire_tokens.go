package client

import "encoding/json"

// The scopes of an access token.
const (
	ScopeEnqueue = "enqueue" // add jobs
	ScopeWork    = "work"    // claim jobs, with their payloads, and finish them
	ScopeView    = "view"    // see jobs, queues and how the node is
	ScopePayload = "payload" // with view: see payloads, results and progress too
	ScopeAdmin   = "admin"   // everything
)

// TokenRequest is the body of POST /v1/tokens.
type TokenRequest struct {
	Name        string   `json:"name"`
	Scopes      []string `json:"scopes"`
	Queues      []string `json:"queues,omitempty"`        // patterns such as "mail*"; empty: every queue
	ExpiresAtMS int64    `json:"expires_at_ms,omitempty"` // or
	ExpiresInMS int64    `json:"expires_in_ms,omitempty"` // from now; neither: never
}

// Token is an access token. Its secret is in the answer that made it and
// nowhere else.
type Token struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Prefix      string   `json:"prefix"` // how the secret begins
	Scopes      []string `json:"scopes"`
	Queues      []string `json:"queues"`
	CreatedAtMS int64    `json:"created_at_ms"`
	ExpiresAtMS *int64   `json:"expires_at_ms"`
	RevokedAtMS *int64   `json:"revoked_at_ms"`
	Token       string   `json:"token,omitempty"` // the secret
}

// Tokens answers GET /v1/tokens.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// Revoked answers DELETE /v1/tokens/{token}.
type Revoked struct {
	ID      string `json:"id"`
	Revoked bool   `json:"revoked"`
}

// AuditEntry is a change that somebody made by hand.
type AuditEntry struct {
	ID      string          `json:"id"`
	AtMS    int64           `json:"at_ms"`
	TokenID string          `json:"token_id,omitempty"` // absent: they had none of the node's tokens
	Actor   string          `json:"actor"`              // the token's name, HOLDFAST_ADMIN_TOKEN, or local where no token was needed
	Remote  string          `json:"remote"`             // the address that it came from
	Action  string          `json:"action"`             // such as job.cancel
	Target  string          `json:"target"`             // a job's id, or a queue's or token's name
	Count   int64           `json:"count"`              // how many things were changed
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// AuditPage is a page of GET /v1/audit, the newest entry first. Next is the
// after of the next page and null at the end.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    *string      `json:"next"`
}
