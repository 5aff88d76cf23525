package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holdfast/node"
	"holdfast/node/client"
)

// access is what a request to a route needs. Beside the scope that is named,
// admin is always enough.
type access struct {
	scope  string // "": none, and no token at all
	queue  bool   // a token for another queue is refused
	all    bool   // a token for some queues is refused
	path   string // to call, where it is not the route's own
	method string // likewise
	body   string
}

// table has every route. {id} and LEASE are filled in with a running job of the
// queue mail, DEAD with a dead one.
var table = map[string]access{
	"POST /v1/jobs":                     {scope: "enqueue", queue: true, body: `{"queue":"mail","payload":"MARKER"}`},
	"GET /v1/jobs":                      {scope: "view", queue: true, path: "/v1/jobs?queue=mail&payload=true"},
	"GET /v1/jobs/{id}":                 {scope: "view", queue: true},
	"DELETE /v1/jobs/{id}":              {scope: "admin", queue: true, path: "/v1/jobs/DEAD"},
	"POST /v1/jobs/{id}/ack":            {scope: "work", queue: true, body: `{"lease":"LEASE","result":"MARKER"}`},
	"POST /v1/jobs/{id}/fail":           {scope: "work", queue: true, body: `{"lease":"LEASE","error":"MARKER"}`},
	"POST /v1/jobs/{id}/release":        {scope: "work", queue: true, body: `{"lease":"LEASE"}`},
	"POST /v1/jobs/{id}/snooze":         {scope: "work", queue: true, body: `{"lease":"LEASE","delay_ms":1}`},
	"POST /v1/jobs/{id}/extend":         {scope: "work", queue: true, body: `{"lease":"LEASE","progress":"MARKER"}`},
	"POST /v1/jobs/{id}/retry":          {scope: "admin", queue: true, path: "/v1/jobs/DEAD/retry", body: `{"payload":"MARKER"}`},
	"POST /v1/jobs/{id}/cancel":         {scope: "admin", queue: true},
	"POST /v1/jobs/{id}/archive":        {scope: "admin", queue: true, path: "/v1/jobs/DEAD/archive"},
	"GET /v1/dead/groups":               {scope: "view", queue: true, path: "/v1/dead/groups?queue=mail"},
	"POST /v1/dead/retry":               {scope: "admin", queue: true, body: `{"queue":"mail"}`},
	"POST /v1/dead/archive":             {scope: "admin", queue: true, body: `{"queue":"mail"}`},
	"GET /v1/export":                    {scope: "view"},
	"POST /v1/claims":                   {scope: "work", queue: true, body: `{"queues":["mail"]}`},
	"POST /v1/acks":                     {scope: "work", body: `{"acks":[{"lease":"LEASE","result":"MARKER"}]}`},
	"POST /v1/fails":                    {scope: "work", body: `{"fails":[{"lease":"LEASE","error":"MARKER"}]}`},
	"POST /v1/releases":                 {scope: "work", body: `{"releases":[{"lease":"LEASE"}]}`},
	"POST /v1/snoozes":                  {scope: "work", body: `{"snoozes":[{"lease":"LEASE","delay_ms":1}]}`},
	"POST /v1/extends":                  {scope: "work", body: `{"extends":[{"lease":"LEASE","progress":"MARKER"}]}`},
	"GET /v1/queues":                    {scope: "view"},
	"GET /v1/queues/{queue}":            {scope: "view", queue: true},
	"PATCH /v1/queues/{queue}":          {scope: "admin", queue: true, body: `{"max_attempts":3}`},
	"POST /v1/queues/{queue}/pause":     {scope: "admin", queue: true},
	"POST /v1/queues/{queue}/resume":    {scope: "admin", queue: true},
	"GET /v1/queues/{queue}/throughput": {scope: "view", queue: true},
	"GET /v1/health":                    {scope: "view", queue: true, path: "/v1/health?queue=mail"},
	"GET /v1/replication":               {scope: "view"},
	"GET /v1/events":                    {scope: "view", method: "HEAD"}, // a stream does not end
	"POST /v1/handover":                 {scope: "admin", all: true},
	"GET /openapi.json":                 {},
	"GET /v1/node":                      {},
	"POST /v1/tokens":                   {scope: "admin", all: true, body: `{"name":"new","scopes":["view"]}`},
	"GET /v1/tokens":                    {scope: "admin", all: true},
	"DELETE /v1/tokens/{token}":         {scope: "admin", all: true, path: "/v1/tokens/99"},
	"GET /v1/audit":                     {scope: "admin", all: true},
	"GET /metrics":                      {scope: "view", all: true},
	"GET /healthz":                      {},
	"GET /readyz":                       {},
	"GET /version":                      {},
}

// tableNode is a node with a token of each scope, for the queue mail, for
// another and for all.
type tableNode struct {
	*fixture
	secrets map[string]string // by "scope queues"
	all     []string
	calls   int
}

func newTableNode(t *testing.T) *tableNode {
	n := &tableNode{fixture: secured(t), secrets: map[string]string{}, all: []string{adminSecret}}
	for _, scope := range []string{"enqueue", "work", "view", "admin"} {
		for _, queue := range []string{"mail", "other", "*"} {
			secret := n.token(scope+" "+queue, []string{queue}, scope).Token
			n.secrets[scope+" "+queue] = secret
			n.all = append(n.all, secret)
		}
	}
	return n
}

// call calls a route with a token, on jobs that are made for it.
func (n *tableNode) call(route string, a access, secret string) (status int, body string) {
	n.t.Helper()
	made := asOK[client.EnqueuedBatch](n.fixture, adminSecret, "POST", "/v1/jobs", `[{"queue":"mail","payload":"MARKER"},{"queue":"mail","payload":"MARKER"}]`)
	asOK[client.Queue](n.fixture, adminSecret, "POST", "/v1/queues/mail/resume", "")
	jobs := asOK[client.Claims](n.fixture, adminSecret, "POST", "/v1/claims", `{"queues":["mail"],"max":1000}`).Jobs
	last := jobs[slices.IndexFunc(jobs, func(j client.Claimed) bool { return j.ID == made.Jobs[0].ID })]
	dead := jobs[slices.IndexFunc(jobs, func(j client.Claimed) bool { return j.ID == made.Jobs[1].ID })]
	asOK[client.Result](n.fixture, adminSecret, "POST", "/v1/jobs/"+dead.ID+"/fail", `{"lease":"`+dead.Lease+`","error":"MARKER","fatal":true}`)
	method, path, _ := strings.Cut(route, " ")
	if a.path != "" {
		path = a.path
	}
	if a.method != "" {
		method = a.method
	}
	fill := strings.NewReplacer("{id}", last.ID, "{queue}", "mail", "LEASE", last.Lease, "DEAD", dead.ID)
	n.all = append(n.all, last.Lease)
	n.calls++ // each from an address of its own, for the limit on wrong tokens
	w := n.from(fmt.Sprintf("10.0.%d.%d:1", n.calls/200, n.calls%200), secret, method, fill.Replace(path), fill.Replace(a.body))
	return w.Code, w.Body.String()
}

func TestEveryRouteNeedsItsScope(t *testing.T) {
	for route := range node.Routes() {
		known := slices.Contains(node.Needs(), route)
		if _, ok := table[route]; !ok {
			t.Errorf("%s is not in this test's table: say which scope it needs, here and in needs", route)
		}
		if !known {
			t.Errorf("%s is not in needs", route)
		}
	}
	for _, route := range node.Needs() {
		if _, ok := node.Routes()[route]; !ok {
			t.Errorf("%s is in needs and is no route", route)
		}
	}
	n := newTableNode(t)
	for route, a := range table {
		t.Run(route, func(t *testing.T) {
			n.t = t
			expect := func(who, secret string, allowed bool, refusal int) {
				t.Helper()
				status, body := n.call(route, a, secret)
				if got := status != http.StatusUnauthorized && status != http.StatusForbidden; got != allowed || !allowed && status != refusal || status == 500 || status == 400 {
					t.Errorf("%s: got %d, allowed should be %t: %s", who, status, allowed, body)
				}
			}
			if a.scope == "" {
				expect("no token", "", true, 0)
				return
			}
			expect("no token", "", false, 401)
			expect("a wrong token", "hf_wrong", false, 401)
			expect("the admin token", adminSecret, true, 0)
			for _, scope := range []string{"enqueue", "work", "view", "admin"} {
				enough := scope == a.scope || scope == "admin"
				expect(scope+" on every queue", n.secrets[scope+" *"], enough, 403)
				expect(scope+" on the queue", n.secrets[scope+" mail"], enough && !a.all, 403)
				expect(scope+" on another queue", n.secrets[scope+" other"], enough && !a.all && !a.queue, 403)
				if !enough {
					if _, body := n.call(route, a, n.secrets[scope+" *"]); !strings.Contains(body, "lacks the scope "+a.scope) {
						t.Errorf("%s: the scope is not named: %s", scope, body)
					}
				}
			}
		})
	}
	log := n.log.String()
	if !strings.Contains(log, "level=DEBUG") {
		t.Error("nothing was logged at debug, so nothing could be found there")
	}
	for i, secret := range append(n.all, "MARKER") {
		if secret == "" || strings.Contains(log, secret) {
			t.Errorf("secret %d is in the log: %s", i, fmt.Sprintf("%.6s…", secret))
		}
	}
}
