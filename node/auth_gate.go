package node

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// TokenReader is what keeps access tokens: the queue of a primary, or a
// read-only copy of its file.
type TokenReader interface {
	AccessTokens(ctx context.Context) ([]queue.AccessToken, error)
}

// StrongSecret is the length from which a secret of the configuration counts
// as one that nobody can guess: 32 hexadecimal digits have 128 bits.
const StrongSecret = 32

// gate tells who makes a request. It holds every token in memory, by the hash
// of its secret: a look costs no read of the file, and a wrong secret no more
// than a right one. Nothing is written.
type gate struct {
	admin    [sha256.Size]byte // of the configuration's token
	hasAdmin bool
	weak     bool // that token could be guessed
	locked   bool // also without any token, as on a node that listens beyond loopback
	fails    *failures
	sessions *sessions
	now      func() time.Time

	changing sync.Mutex // held while tokens are made and revoked
	known    atomic.Pointer[knownTokens]
}

// knownTokens are the tokens of the file as they were read last.
type knownTokens struct {
	tokens []queue.AccessToken
	byHash map[[sha256.Size]byte]*principal
	any    bool  // one is not revoked
	err    error // why they could not be read; then nobody but the operator is let in
}

func newGate(cfg Config) *gate {
	g := &gate{locked: cfg.beyondLoopback(), now: time.Now, fails: newFailures(time.Now), sessions: newSessions()}
	if cfg.AdminToken != "" {
		g.admin, g.hasAdmin, g.weak = sha256.Sum256([]byte(cfg.AdminToken)), true, len(cfg.AdminToken) < StrongSecret
	}
	g.known.Store(&knownTokens{})
	return g
}

// load reads the tokens, and puts them in the place of those before at once.
func (g *gate) load(ctx context.Context, from TokenReader) error {
	tokens, err := from.AccessTokens(ctx)
	g.put(tokens, err)
	return err
}

// keep puts tokens that were read in the place of those before.
func (g *gate) keep(tokens []queue.AccessToken) { g.put(tokens, nil) }

func (g *gate) put(tokens []queue.AccessToken, err error) {
	known := &knownTokens{tokens: tokens, byHash: make(map[[sha256.Size]byte]*principal, len(tokens)), err: err}
	for _, t := range tokens {
		known.byHash[t.Hash] = principalOfToken(t)
		known.any = known.any || t.RevokedAt.IsZero()
	}
	g.known.Store(known)
}

// closed reports whether a request needs a token.
func (g *gate) closed() bool {
	known := g.known.Load()
	return g.locked || g.hasAdmin || known.any || known.err != nil
}

// identify returns who makes r. Errors are *apiError: unauthorized, and
// rate_limited for one of too many wrong tokens from one address.
func (g *gate) identify(r *http.Request) (*principal, error) {
	if !g.closed() {
		return anyone, nil
	}
	secret, err := bearer(r)
	if err != nil {
		return nil, err
	}
	p, reason := g.check(secret, r.RemoteAddr)
	if p != nil {
		return p, nil
	}
	if g.fails.add(r.RemoteAddr) {
		return nil, &apiError{code: client.CodeRateLimited, message: "too many wrong tokens came from this address; the last one: " + reason}
	}
	return nil, unauthorized(reason)
}

// check returns the principal of a secret, or nil and why there is none.
// Hashes are compared: how long that takes tells nothing of a secret.
func (g *gate) check(secret, remote string) (p *principal, reason string) {
	hash := sha256.Sum256([]byte(secret))
	if g.hasAdmin && subtle.ConstantTimeCompare(hash[:], g.admin[:]) == 1 && !(g.weak && g.fails.over(remote)) {
		return operator, ""
	}
	known := g.known.Load()
	p = known.byHash[hash]
	switch {
	case p == nil || subtle.ConstantTimeCompare(hash[:], p.token.Hash[:]) != 1:
		return nil, "the access token is not known here"
	case !p.token.RevokedAt.IsZero():
		return nil, fmt.Sprintf("the access token %q is revoked", p.token.Name)
	case !p.token.Good(g.now()):
		return nil, fmt.Sprintf("the access token %q has expired", p.token.Name)
	}
	return p, ""
}

// still returns nil as long as who was let in would be let in now.
func (g *gate) still(p *principal) error {
	known := g.known.Load()
	switch now := known.byHash[p.token.Hash]; {
	case p == operator:
	case p == anyone:
		if g.closed() {
			return unauthorized("an access token is needed now")
		}
	case now == nil || !now.token.RevokedAt.IsZero():
		return unauthorized(fmt.Sprintf("the access token %q is revoked", p.token.Name))
	case !now.token.Good(g.now()):
		return unauthorized(fmt.Sprintf("the access token %q has expired", p.token.Name))
	}
	return nil
}

// still returns nil as long as who makes r would be let in now. What waits
// before it answers, or answers bit by bit, asks again.
func (a *API) still(r *http.Request) error { return a.gate.still(principalOf(r)) }

// maxSecret is more than any secret has.
const maxSecret = 1024

// bearer returns the secret of the request's Authorization header.
func bearer(r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	if len(r.Header["Authorization"]) > 1 { // a proxy may have looked at another of them
		return "", unauthorized("the Authorization header is given more than once")
	}
	scheme, secret, _ := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	switch {
	case header == "":
		return "", unauthorized("an access token is needed: send it as the header Authorization: Bearer hf_…, or set HOLDFAST_TOKEN for the command line")
	case !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > maxSecret:
		return "", unauthorized("the Authorization header must be: Bearer and an access token")
	}
	return secret, nil
}

func unauthorized(reason string) error {
	return &apiError{code: client.CodeUnauthorized, message: reason}
}
