package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// TokenStore is a [Store] that keeps access tokens and the audit trail.
type TokenStore interface {
	TokenReader
	CreateAccessToken(ctx context.Context, t queue.AccessToken) (queue.AccessToken, queue.Seq, error)
	RevokeAccessToken(ctx context.Context, id int64) (queue.Seq, error)
	Note(ctx context.Context) error
	AuditTrail(ctx context.Context, before int64, limit int) ([]queue.AuditEntry, error)
}

func tokenStore(s Store) (TokenStore, error) {
	if store, ok := s.(TokenStore); ok {
		return store, nil
	}
	return nil, &apiError{code: client.CodeNotFound, message: "this node keeps no access tokens"}
}

const (
	secretPrefix = "hf_"
	secretBytes  = 25 // 200 bits, of which lists show 40
	shownOfIt    = 8  // letters after the prefix
	maxPatterns  = 32
)

// newSecret draws a secret by lot.
func newSecret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // it never fails
	return secretPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// createToken is POST /v1/tokens. Its answer is the only one that has the
// secret.
func (a *API) createToken(s Store, w http.ResponseWriter, r *http.Request) error {
	store, err := tokenStore(s)
	if err != nil {
		return err
	}
	var req client.TokenRequest
	if err := decode(w, r, &req); err != nil {
		return err
	}
	token, err := a.tokenOf(&req)
	if err != nil {
		return err
	}
	secret := newSecret()
	token.Prefix, token.Hash = secret[:len(secretPrefix)+shownOfIt], sha256.Sum256([]byte(secret))
	a.gate.changing.Lock()
	defer a.gate.changing.Unlock()
	if !a.gate.hasAdmin && !a.gate.administered(0) && !principalOfToken(token).administers() {
		return invalid("scopes: the first token must have the scope admin, for all queues and without an end: with this one alone nobody could administer the node. Make that one first, or start the node with HOLDFAST_ADMIN_TOKEN")
	}
	r = staying(r)
	ctx := a.audited(r, "token.create", req.Name, map[string]any{"scopes": token.Scopes, "queues": token.Queues})
	made, seq, err := store.CreateAccessToken(ctx, token)
	if err := a.tokensChanged(r, store, err); err != nil {
		return err
	}
	a.wrote(w, seq)
	wire := tokenWire(&made)
	wire.Token = secret
	return a.answer(w, http.StatusCreated, wire)
}

// tokenOf checks a request for a token.
func (a *API) tokenOf(req *client.TokenRequest) (queue.AccessToken, error) {
	t := queue.AccessToken{Name: strings.TrimSpace(req.Name), Queues: req.Queues, ExpiresAt: instant(req.ExpiresAtMS)}
	s, err := parseScopes(req.Scopes)
	switch {
	case err != nil:
		return t, err
	case s == 0:
		return t, invalid("scopes: name at least one of %s", strings.Join(scopeNames, ", "))
	case s&scopePayload != 0 && s&(scopeView|scopeAdmin) == 0:
		return t, invalid("scopes: payload shows the payloads of what view shows; add view")
	case req.ExpiresInMS != 0 && req.ExpiresAtMS != 0:
		return t, invalid("expires_in_ms: goes not together with expires_at_ms: give one of them")
	case len(req.Queues) > maxPatterns:
		return t, invalid("queues: at most %d patterns", maxPatterns)
	}
	t.Scopes = s.names()
	if req.ExpiresInMS != 0 {
		in, err := millis("expires_in_ms", req.ExpiresInMS, time.Millisecond, queue.MaxDelay)
		if err != nil {
			return t, err
		}
		t.ExpiresAt = a.gate.now().Add(in)
	}
	if len(t.Queues) == 0 {
		t.Queues = []string{everyQueue}
	}
	for _, pattern := range t.Queues {
		if err := checkPattern(pattern); err != nil {
			return t, err
		}
	}
	return t, nil
}

// administers reports whether p can make and revoke tokens for ever.
func (p *principal) administers() bool {
	return p.all && p.scopes&scopeAdmin != 0 && p.token.RevokedAt.IsZero() && p.token.ExpiresAt.IsZero()
}

// administered reports whether a token besides one of them administers the node.
func (g *gate) administered(besides int64) bool {
	for _, p := range g.known.Load().byHash {
		if p.token.ID != besides && p.administers() {
			return true
		}
	}
	return false
}

// listTokens is GET /v1/tokens.
func (a *API) listTokens(s Store, w http.ResponseWriter, r *http.Request) error {
	store, err := tokenStore(s)
	if err != nil {
		return err
	}
	tokens, err := store.AccessTokens(r.Context())
	if err != nil {
		return err
	}
	wire := client.Tokens{Tokens: make([]client.Token, len(tokens))}
	for i := range tokens {
		wire.Tokens[i] = tokenWire(&tokens[i])
	}
	return a.answer(w, http.StatusOK, wire)
}

// revokeToken is DELETE /v1/tokens/{token}. When it answers, the token is
// worth nothing on this node.
func (a *API) revokeToken(s Store, w http.ResponseWriter, r *http.Request) error {
	store, err := tokenStore(s)
	if err != nil {
		return err
	}
	id, ok := parseID(r.PathValue("token"))
	if !ok {
		return invalid("token: %.40q is not a token's id, which is a decimal number", r.PathValue("token"))
	}
	if err := decodeNothing(w, r); err != nil {
		return err
	}
	a.gate.changing.Lock()
	defer a.gate.changing.Unlock()
	name := ""
	others := false
	for _, t := range a.gate.known.Load().tokens {
		if t.ID == id {
			name = t.Name
		}
		others = others || t.ID != id && t.RevokedAt.IsZero()
	}
	if !a.gate.hasAdmin && a.gate.administered(0) && !a.gate.administered(id) && (others || a.gate.locked) {
		return &apiError{code: client.CodeWrongState, message: "it is the last token with which the node can be administered; make another with the scope admin first, or start the node with HOLDFAST_ADMIN_TOKEN"}
	}
	r = staying(r)
	seq, err := store.RevokeAccessToken(a.audited(r, "token.revoke", name, nil), id)
	if err := a.tokensChanged(r, store, err); err != nil {
		return err
	}
	a.wrote(w, seq)
	return a.answer(w, http.StatusOK, client.Revoked{ID: idOf(id), Revoked: true})
}

// staying is r as if its client did not go: a change of the tokens that the
// file has and this node does not know of would leave a revoked one good.
func staying(r *http.Request) *http.Request { return r.WithContext(context.WithoutCancel(r.Context())) }

// tokensChanged reads the tokens after a change, whose error leaves open whether
// it took place.
func (a *API) tokensChanged(r *http.Request, store TokenStore, err error) error {
	fault := a.gate.load(r.Context(), store)
	a.feed.nudge()
	return cmp.Or(err, fault)
}

func tokenWire(t *queue.AccessToken) client.Token {
	return client.Token{
		ID: idOf(t.ID), Name: t.Name, Prefix: t.Prefix, Scopes: slices.Concat([]string{}, t.Scopes), Queues: slices.Concat([]string{}, t.Queues),
		CreatedAtMS: t.CreatedAt.UnixMilli(), ExpiresAtMS: optionalMS(t.ExpiresAt), RevokedAtMS: optionalMS(t.RevokedAt),
	}
}

// audited returns a context for a change by hand that leaves an entry in the
// audit trail.
func (a *API) audited(r *http.Request, action, target string, detail any) context.Context {
	p := principalOf(r)
	entry := queue.Audit{Token: p.token.ID, Actor: p.actor, Remote: hostOf(r.RemoteAddr), Action: action, Target: target}
	if detail != nil {
		if text, err := json.Marshal(detail); err == nil && len(text) <= maxDetail {
			entry.Detail = string(text)
		}
	}
	return queue.WithAudit(r.Context(), entry)
}

// noteHandover leaves an entry for a handover, which must not fail for want of
// it: the disk may be the reason why the node is to give way.
func (a *API) noteHandover(r *http.Request) {
	s := a.store.Load()
	if s == nil {
		return
	}
	store, err := tokenStore(*s)
	if err == nil {
		err = store.Note(a.audited(r, "node.handover", "", nil))
	}
	if err != nil {
		a.log.Warn("the handover is not in the audit trail", "err", err)
	}
}

// maxDetail bounds what an entry says besides who, what and when.
const maxDetail = 4 << 10

// auditParams are the query parameters of GET /v1/audit.
var auditParams = []string{"after", "limit"}

// audit is GET /v1/audit, the newest entry first.
func (a *API) audit(s Store, w http.ResponseWriter, r *http.Request) error {
	store, err := tokenStore(s)
	if err != nil {
		return err
	}
	values := r.URL.Query()
	after, err := numberOf(values, "after")
	if err != nil {
		return err
	}
	limit, err := numberOf(values, "limit")
	if err != nil {
		return err
	}
	if limit == 0 && !values.Has("limit") {
		limit = defaultPage
	}
	if after < 0 || limit < 1 || limit > queue.MaxPage {
		return invalid("limit: must be from 1 to %d, and after the next of a page", queue.MaxPage)
	}
	entries, err := store.AuditTrail(r.Context(), after, int(limit))
	if err != nil {
		return err
	}
	wire := client.AuditPage{Entries: make([]client.AuditEntry, len(entries))}
	for i, e := range entries {
		wire.Entries[i] = client.AuditEntry{
			ID: idOf(e.ID), AtMS: e.At.UnixMilli(), Actor: e.Actor, Remote: e.Remote, Action: e.Action, Target: e.Target, Count: e.Count,
			Detail: json.RawMessage(e.Detail),
		}
		if e.Token != 0 {
			wire.Entries[i].TokenID = idOf(e.Token)
		}
	}
	if len(entries) == int(limit) {
		wire.Next = optional(idOf(entries[len(entries)-1].ID))
	}
	return a.answer(w, http.StatusOK, wire)
}

var (
	_ TokenStore  = (*queue.Queue)(nil)
	_ QueueFinder = (*queue.Queue)(nil)
)
