package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// CreateToken makes an access token. Its secret, in Token.Token, is shown this
// once.
func (c *Client) CreateToken(ctx context.Context, req TokenRequest) (Token, error) {
	var out Token
	if err := c.do(ctx, call{method: http.MethodPost, path: "/v1/tokens", body: req}, &out); err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	return out, nil
}

// Tokens returns every access token, those that were revoked lately too.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	var out Tokens
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/tokens"}, &out); err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return out.Tokens, nil
}

// RevokeToken makes an access token worthless for ever.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	if err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/tokens/" + url.PathEscape(id)}, &Revoked{}); err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	return nil
}

// Audit returns a page of what was changed by hand, the newest first. After is
// the Next of the page before, or empty; limit 0 is the node's default.
func (c *Client) Audit(ctx context.Context, after string, limit int) (AuditPage, error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", after)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var out AuditPage
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/audit", query: query}, &out); err != nil {
		return AuditPage{}, fmt.Errorf("audit: %w", err)
	}
	return out, nil
}
