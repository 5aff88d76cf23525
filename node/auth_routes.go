package node

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// need is what a route asks of a token.
type need struct {
	open  bool   // no token at all
	scope scopes // this scope, and
	all   bool   // all queues
}

// needs has every route, by method and path. One that is missing here needs
// admin for all queues. A route whose path names a queue, or a job by {id},
// also needs a token for that queue; for the others the handler sees to it.
var needs = map[string]need{
	"POST /v1/jobs":                     {scope: scopeEnqueue},
	"GET /v1/jobs":                      {scope: scopeView},
	"GET /v1/jobs/{id}":                 {scope: scopeView},
	"DELETE /v1/jobs/{id}":              {scope: scopeAdmin},
	"POST /v1/jobs/{id}/ack":            {scope: scopeWork},
	"POST /v1/jobs/{id}/fail":           {scope: scopeWork},
	"POST /v1/jobs/{id}/release":        {scope: scopeWork},
	"POST /v1/jobs/{id}/snooze":         {scope: scopeWork},
	"POST /v1/jobs/{id}/extend":         {scope: scopeWork},
	"POST /v1/jobs/{id}/retry":          {scope: scopeAdmin},
	"POST /v1/jobs/{id}/cancel":         {scope: scopeAdmin},
	"POST /v1/jobs/{id}/archive":        {scope: scopeAdmin},
	"GET /v1/dead/groups":               {scope: scopeView},
	"POST /v1/dead/retry":               {scope: scopeAdmin},
	"POST /v1/dead/archive":             {scope: scopeAdmin},
	"GET /v1/export":                    {scope: scopeView},
	"POST /v1/claims":                   {scope: scopeWork},
	"POST /v1/acks":                     {scope: scopeWork},
	"POST /v1/fails":                    {scope: scopeWork},
	"POST /v1/releases":                 {scope: scopeWork},
	"POST /v1/snoozes":                  {scope: scopeWork},
	"POST /v1/extends":                  {scope: scopeWork},
	"GET /v1/queues":                    {scope: scopeView},
	"GET /v1/queues/{queue}":            {scope: scopeView},
	"PATCH /v1/queues/{queue}":          {scope: scopeAdmin},
	"GET /v1/health":                    {scope: scopeView},
	"GET /v1/replication":               {scope: scopeView},
	"GET /v1/events":                    {scope: scopeView},
	"POST /v1/handover":                 {scope: scopeAdmin, all: true},
	"GET /openapi.json":                 {open: true},
	"GET /metrics":                      {scope: scopeView, all: true},
	"POST /v1/tokens":                   {scope: scopeAdmin, all: true},
	"GET /v1/tokens":                    {scope: scopeAdmin, all: true},
	"DELETE /v1/tokens/{token}":         {scope: scopeAdmin, all: true},
	"GET /v1/audit":                     {scope: scopeAdmin, all: true},
	"GET " + nodePath:                   {open: true}, // another node asks who holds the root, before it takes it
	"GET /healthz":                      {open: true},
	"GET /readyz":                       {open: true},
	"GET /version":                      {open: true},
	"POST /v1/queues/{queue}/pause":     {scope: scopeAdmin},
	"POST /v1/queues/{queue}/resume":    {scope: scopeAdmin},
	"GET /v1/queues/{queue}/throughput": {scope: scopeView},
}

func needOf(rt *route) need {
	if n, ok := needs[rt.method+" "+rt.path]; ok {
		return n
	}
	return need{scope: scopeAdmin, all: true}
}

// admit finds out who makes a request to a route and whether they may. The
// request it returns carries the principal.
func (a *API) admit(w http.ResponseWriter, r *http.Request, rt *route, n need) (*http.Request, error) {
	if n.open {
		return r, nil
	}
	p, err := a.gate.identify(r)
	if err == nil {
		err = p.wants(n.scope)
	}
	if err == nil && n.all {
		err = p.wantsAll()
	}
	if err == nil && slices.Contains(rt.params, minSeqParam) {
		if err = a.hold(r); err != nil {
			return r, err
		}
	}
	if err == nil && !p.all {
		err = a.admitTo(r, rt, p)
	}
	if err != nil {
		for _, name := range []string{seqHeader, asOfHeader, lagHeader} {
			w.Header().Del(name)
		}
		a.refused(w, r, err)
		return r, err
	}
	return withPrincipal(r, p), nil
}

// admitTo checks the queue that the path names, or whose job it names.
func (a *API) admitTo(r *http.Request, rt *route, p *principal) error {
	if name := r.PathValue("queue"); name != "" {
		return p.wantsQueue(name)
	}
	if !strings.HasPrefix(rt.path, "/v1/jobs/{id}") {
		return nil
	}
	id, err := jobID(r)
	if err != nil {
		return err
	}
	store := a.storeFor(r)
	if store == nil {
		return errLost
	}
	of, err := queuesOf(r, store, []int64{id})
	if err != nil {
		return err
	}
	if name, ok := of[id]; ok && !p.covers(name) {
		return p.notItsJob(id)
	}
	return nil // one that is not there is for the handler
}

// QueueFinder is a [Store] that knows the queues of jobs.
type QueueFinder interface {
	QueuesOf(ctx context.Context, jobs []int64) (map[int64]string, error)
}

func queuesOf(r *http.Request, s Store, ids []int64) (map[int64]string, error) {
	finder, ok := s.(QueueFinder)
	if !ok {
		return nil, errors.New("the store does not know the queues of jobs")
	}
	return finder.QueuesOf(r.Context(), ids)
}

// refused completes the answer to a request that was not admitted.
func (a *API) refused(w http.ResponseWriter, r *http.Request, err error) {
	e := asAPIError(err)
	if e == nil {
		return
	}
	switch e.status() {
	case http.StatusUnauthorized:
		challenge := `Bearer realm="holdfast"`
		if r.Header.Get("Authorization") != "" {
			challenge += `, error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(failEvery.Seconds())))
		a.log.Warn("too many wrong access tokens", "remote", networkOf(r.RemoteAddr), "method", r.Method, "route", r.Pattern)
	}
	a.log.Debug("request refused", "remote", networkOf(r.RemoteAddr), "method", r.Method, "route", r.Pattern, "code", e.code)
}
