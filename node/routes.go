package node

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"holdfast/node/client"
	"holdfast/node/dashboard"
)

// nodePath is served also while the store is closed.
const nodePath = "/v1/node"

// handler answers a request, or returns an error and has written nothing.
type handler func(w http.ResponseWriter, r *http.Request) error

// storeHandler is a handler that needs the open store.
type storeHandler func(s Store, w http.ResponseWriter, r *http.Request) error

// route is a line of the route table.
type route struct {
	method string
	path   string
	params []string // the query parameters that it knows
	handle handler
}

func (a *API) routes() []route {
	get, post, patch, del := http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	return []route{
		{post, "/v1/jobs", nil, a.with(a.enqueue)},
		{get, "/v1/jobs", fresh(listParams...), a.with(a.list)},
		{get, "/v1/jobs/{id}", fresh("wait_ms"), a.with(a.job)},
		{del, "/v1/jobs/{id}", nil, a.with(a.deleteJob)},
		{post, "/v1/jobs/{id}/ack", nil, a.with(a.ack)},
		{post, "/v1/jobs/{id}/fail", nil, a.with(a.failJob)},
		{post, "/v1/jobs/{id}/release", nil, a.with(a.release)},
		{post, "/v1/jobs/{id}/snooze", nil, a.with(a.snooze)},
		{post, "/v1/jobs/{id}/extend", nil, a.with(a.extend)},
		{post, "/v1/jobs/{id}/retry", nil, a.with(a.retry)},
		{post, "/v1/jobs/{id}/cancel", nil, a.with(a.cancel)},
		{post, "/v1/jobs/{id}/archive", nil, a.with(a.archive)},
		{get, "/v1/dead/groups", fresh(groupParams...), a.with(a.deadGroups)},
		{post, "/v1/dead/retry", nil, a.with(a.retryDead)},
		{post, "/v1/dead/archive", nil, a.with(a.archiveDead)},
		{get, "/v1/export", nil, a.with(a.export)},
		{post, "/v1/claims", nil, a.with(a.claim)},
		{post, "/v1/acks", nil, a.with(a.acks)},
		{post, "/v1/fails", nil, a.with(a.fails)},
		{post, "/v1/releases", nil, a.with(a.releases)},
		{post, "/v1/snoozes", nil, a.with(a.snoozes)},
		{post, "/v1/extends", nil, a.with(a.extends)},
		{get, "/v1/queues", fresh(), a.with(a.queues)},
		{get, "/v1/queues/{queue}", fresh(), a.with(a.queue)},
		{patch, "/v1/queues/{queue}", nil, a.with(a.patchQueue)},
		{post, "/v1/queues/{queue}/pause", nil, a.with(a.pause)},
		{post, "/v1/queues/{queue}/resume", nil, a.with(a.resume)},
		{get, "/v1/queues/{queue}/throughput", fresh("since_ms"), a.with(a.throughput)},
		{get, "/v1/health", fresh("queue"), a.with(a.health)},
		{get, "/v1/events", []string{"queue", positionsParam}, a.with(a.events)},
		{get, "/v1/replication", fresh(), a.with(a.showReplication)},
		{post, "/v1/handover", nil, a.handover},
		{post, "/v1/tokens", nil, a.with(a.createToken)},
		{get, "/v1/tokens", nil, a.with(a.listTokens)},
		{del, "/v1/tokens/{token}", nil, a.with(a.revokeToken)},
		{get, "/v1/audit", auditParams, a.with(a.audit)},
		{get, nodePath, nil, a.showNode},
		{get, "/healthz", nil, a.healthz},
		{get, "/readyz", nil, a.readyz},
		{get, "/metrics", nil, a.showMetrics},
		{get, "/openapi.json", nil, a.showOpenAPI},
		{get, "/version", nil, a.showVersion},
	}
}

// with hands the store to h. It may have been shut since ServeHTTP looked.
func (a *API) with(h storeHandler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a.running.Add(1) // before the look at the store: Leave takes it away, and then waits
		defer a.running.Add(-1)
		store := a.storeFor(r)
		if store == nil {
			return errLost
		}
		return h(store, w, r)
	}
}

// newMux registers the routes, and for each path one without a method, which
// ServeMux prefers least: it is reached by the methods that the path does not
// have, and answers in JSON as ServeMux itself would not.
func (a *API) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, rt := range a.routes() {
		mux.HandleFunc(rt.method+" "+rt.path, a.serve(rt))
		methods[rt.path] = append(methods[rt.path], rt.method)
		if rt.method == http.MethodGet {
			methods[rt.path] = append(methods[rt.path], http.MethodHead)
		}
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		allow := strings.Join(allowed, ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			a.fail(w, r, &apiError{code: client.CodeMethodNotAllowed, message: r.Method + " is not allowed here; use " + allow})
		})
	}
	shown := dashboard.New(dashboard.Options{Gate: pages{a}, Log: a.log, Version: a.version.Version})
	for _, pattern := range dashboard.Patterns() {
		mux.Handle(pattern, shown)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, &apiError{code: client.CodeNotFound, message: "no such path; GET /openapi.json has all of them"})
	})
	return mux
}

// serve runs a route's handler: the one place where its error becomes an answer.
func (a *API) serve(rt route) http.HandlerFunc {
	need := needOf(&rt)
	held := slices.Contains(rt.params, minSeqParam)
	return func(w http.ResponseWriter, r *http.Request) {
		if held && a.copies != nil {
			h := &hold{ResponseWriter: w, copies: a.copies}
			defer h.release()
			w, r = h, r.WithContext(context.WithValue(r.Context(), holdKey{}, h))
		}
		r, err := a.admit(w, r, &rt, need)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if err := checkParams(r, rt.params); err != nil {
			a.fail(w, r, err)
			return
		}
		if err := rt.handle(w, r); err != nil {
			a.fail(w, r, a.meant(r, err))
		}
	}
}
