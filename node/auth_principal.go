package node

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"holdfast/node/client"
	"holdfast/queue"
)

// scopes is a set of what a token lets its bearer do.
type scopes uint8

const (
	scopeEnqueue scopes = 1 << iota // add jobs
	scopeWork                       // claim jobs, with their payloads, and finish them
	scopeView                       // see jobs, queues and how the node is
	scopePayload                    // see payloads, results and progress too
	scopeAdmin                      // everything
)

// scopeNames are the scopes on the wire, in the order of their bits.
var scopeNames = []string{client.ScopeEnqueue, client.ScopeWork, client.ScopeView, client.ScopePayload, client.ScopeAdmin}

// parseScopes reads the names of scopes.
func parseScopes(names []string) (scopes, error) {
	var s scopes
	for _, name := range names {
		i := slices.Index(scopeNames, name)
		if i < 0 {
			return 0, invalid("scopes: %.40q is none of %s", name, strings.Join(scopeNames, ", "))
		}
		s |= 1 << i
	}
	return s, nil
}

func (s scopes) names() []string {
	var out []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// everyQueue is the pattern that every queue's name matches.
const everyQueue = "*"

// checkPattern refuses what cannot match the name of a queue.
func checkPattern(pattern string) error {
	valid := func(r rune) bool {
		return r < 0x80 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._:-*?", r))
	}
	if pattern == "" || len(pattern) > queue.MaxName || strings.ContainsFunc(pattern, func(r rune) bool { return !valid(r) }) {
		return invalid("queues: %.140q is not the name of a queue with * for any letters and ? for one", pattern)
	}
	return nil
}

// principal is who makes a request, and what they may do.
type principal struct {
	token  queue.AccessToken // with an id of 0: none of the file's
	actor  string            // for the audit trail
	scopes scopes
	all    bool // every queue; else those that match token.Queues
}

// anyone is who makes a request to a node without tokens: this machine's users.
var anyone = &principal{actor: "local", scopes: ^scopes(0), all: true}

// operator bears the token of the node's configuration.
var operator = &principal{actor: "HOLDFAST_ADMIN_TOKEN", scopes: ^scopes(0), all: true}

// principalOfToken reads a stored token. A scope of a later version, or a
// damaged one, allows nothing.
func principalOfToken(t queue.AccessToken) *principal {
	p := &principal{token: t, actor: t.Name, all: slices.Contains(t.Queues, everyQueue)}
	for _, name := range t.Scopes {
		if s, err := parseScopes([]string{name}); err == nil {
			p.scopes |= s
		}
	}
	return p
}

// may reports whether p has a scope; admin has all.
func (p *principal) may(s scopes) bool { return p.scopes&(s|scopeAdmin) != 0 }

// covers reports whether p may touch the queue.
func (p *principal) covers(name string) bool {
	return p.all || slices.ContainsFunc(p.token.Queues, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// allow is covers for a [queue.Filter]; nil when there is nothing to leave out.
func (p *principal) allow() func(string) bool {
	if p.all {
		return nil
	}
	return p.covers
}

// title is how messages call p.
func (p *principal) title() string {
	if p.token.ID == 0 {
		return "the token"
	}
	return fmt.Sprintf("the token %q", p.token.Name)
}

func forbidden(format string, args ...any) error {
	return &apiError{code: client.CodeForbidden, message: fmt.Sprintf(format, args...)}
}

// wants returns nil if p has the scope.
func (p *principal) wants(s scopes) error {
	if p.may(s) {
		return nil
	}
	return forbidden("%s lacks the scope %s; it has %s", p.title(), strings.Join(s.names(), ", "), strings.Join(p.scopes.names(), ", "))
}

// wantsQueue returns nil if p covers the queue.
func (p *principal) wantsQueue(name string) error {
	if p.covers(name) {
		return nil
	}
	return forbidden("%s is not for the queue %.140q; its queues are %s", p.title(), name, strings.Join(p.token.Queues, ", "))
}

// wantsAll returns nil if p covers every queue.
func (p *principal) wantsAll() error {
	if p.all {
		return nil
	}
	return forbidden("this needs a token for all queues, and %s is for %s", p.title(), strings.Join(p.token.Queues, ", "))
}

// notItsJob does not name the queue: whoever guesses ids shall not learn it.
func (p *principal) notItsJob(id int64) error {
	return forbidden("job %d is of a queue that %s is not for; its queues are %s", id, p.title(), strings.Join(p.token.Queues, ", "))
}

type principalKey struct{}

func withPrincipal(r *http.Request, p *principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
}

// nobody may do nothing.
var nobody = &principal{}

// principalOf returns who makes a request that was admitted.
func principalOf(r *http.Request) *principal {
	if p, ok := r.Context().Value(principalKey{}).(*principal); ok {
		return p
	}
	return nobody
}
