package node_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"holdfast/node"
	"holdfast/node/client"
)

// fetchDocument gets /openapi.json as a client would, from a node that is not
// open yet.
func fetchDocument() ([]byte, error) {
	w := httptest.NewRecorder()
	node.NewAPI(node.Config{}).ServeHTTP(w, httptest.NewRequest("GET", base+"/openapi.json", nil))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		return nil, errors.New("GET /openapi.json: " + w.Body.String())
	}
	return w.Body.Bytes(), nil
}

func TestOpenAPIIsOpenAPI(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	schema, err := os.ReadFile("testdata/openapi/schema-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	meta, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("openapi-3.1.json", meta); err != nil {
		t.Fatal(err)
	}
	valid, err := compiler.Compile("openapi-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := fetchDocument()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	if err := valid.Validate(doc); err != nil {
		t.Errorf("%#v", err)
	}
}

func TestOpenAPIHasEveryRoute(t *testing.T) {
	c := theContract(t)
	routes := node.Routes()
	documented := map[string]bool{}
	ids := map[any]string{}
	paths, _ := c.at("", "paths")
	for path, item := range paths {
		for method, operation := range item.(map[string]any) {
			if method == "parameters" {
				continue
			}
			op := strings.ToUpper(method) + " " + path
			documented[op] = true
			id := operation.(map[string]any)["operationId"]
			if other, twice := ids[id]; twice || id == nil {
				t.Errorf("%s has the operationId %v, as %s", op, id, other)
			}
			ids[id] = op
			wantParameters(t, c, op, path, method, routes[op])
		}
	}
	for op := range routes {
		if !documented[op] {
			t.Errorf("%s is a route and not documented", op)
		}
	}
	for op := range documented {
		if _, ok := routes[op]; !ok {
			t.Errorf("%s is documented and no route", op)
		}
	}
}

// wantParameters compares the parameters of an operation with its route's.
func wantParameters(t *testing.T, c *contract, op, path, method string, want []string) {
	t.Helper()
	_, pointer := c.at("", "paths", path, method)
	var query, inPath []string
	for _, p := range c.parameters(pointer) {
		switch p["in"] {
		case "query":
			query = append(query, p["name"].(string))
		case "path":
			inPath = append(inPath, "{"+p["name"].(string)+"}")
		}
	}
	slices.Sort(query)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(query, want) {
		t.Errorf("%s documents the query parameters %v, and knows %v", op, query, want)
	}
	for _, segment := range strings.Split(path, "/") {
		if strings.HasPrefix(segment, "{") && !slices.Contains(inPath, segment) {
			t.Errorf("%s does not document %s", op, segment)
		}
	}
}

func TestOpenAPIHasEveryCode(t *testing.T) {
	code, _ := theContract(t).at("", "components", "schemas", "Code")
	table := code["description"].(string)
	var documented []string
	for _, c := range code["enum"].([]any) {
		documented = append(documented, c.(string))
	}
	codes := codesOf(t)
	slices.Sort(documented)
	if !slices.Equal(documented, codes) {
		t.Errorf("documented are %v, there are %v", documented, codes)
	}
	guide, err := os.ReadFile("../deploy/docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range codes {
		row := "| `" + c + "` | " + strconv.Itoa(node.StatusOf(c)) + " |"
		if c == string(client.CodeTooSlow) {
			row = "| `" + c + "` | |" // never of an answer
		}
		if !strings.Contains(table, row) {
			t.Errorf("the table of codes lacks %q", row)
		}
		if !strings.Contains(string(guide), row) {
			t.Errorf("deploy/docs/api.md lacks %q", row)
		}
	}
}

// codesOf reads the error codes from their source.
func codesOf(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "client/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, text)
		}
		return true
	})
	if len(codes) < 10 {
		t.Fatalf("found %v", codes)
	}
	slices.Sort(codes)
	return codes
}

// wireTypes are the JSON of the API. Each has a schema of its name.
var wireTypes = []any{
	client.Spec{},
	client.Backoff{},
	client.Enqueued{},
	client.EnqueuedBatch{},
	client.ClaimRequest{},
	client.Claims{},
	client.Claimed{},
	client.Ack{},
	client.Fail{},
	client.Release{},
	client.Snoozing{},
	client.Extend{},
	client.AckRequest{},
	client.FailRequest{},
	client.ReleaseRequest{},
	client.SnoozeRequest{},
	client.ExtendRequest{},
	client.Results{},
	client.Result{},
	client.ErrorBody{},
	client.ErrorAnswer{},
	client.Job{},
	client.Run{},
	client.Jobs{},
	client.RetryRequest{},
	client.Counts{},
	client.Health{},
	client.QueueHealth{},
	client.Replication{},
	client.ReplicationStatus{},
	client.Requests{},
	client.Node{},
	client.Follows{},
	client.Version{},
	client.Ready{},
	client.Queues{},
	client.Queue{},
	client.QueueSettings{},
	client.QueuePatch{},
	client.Throughput{},
	client.Minute{},
	client.DeadRequest{},
	client.DeadStep{},
	client.DeadGroups{},
	client.DeadGroup{},
	client.Deleted{},
	client.Changes{},
	client.Change{},
	client.Position{},
	client.Follows{},
	client.Handover{},
	client.TokenRequest{},
	client.Token{},
	client.Tokens{},
	client.Revoked{},
	client.AuditEntry{},
	client.AuditPage{},
}

func TestOpenAPIHasEveryField(t *testing.T) {
	c := theContract(t)
	schemas, _ := c.at("", "components", "schemas")
	objects := map[string]bool{}
	for name, schema := range schemas {
		if _, ok := schema.(map[string]any)["properties"]; ok {
			objects[name] = true
		}
	}
	for _, v := range wireTypes {
		typ := reflect.TypeOf(v)
		delete(objects, typ.Name())
		schema, _ := c.at("", "components", "schemas", typ.Name())
		properties, _ := schema["properties"].(map[string]any)
		documented := slices.Sorted(maps.Keys(properties))
		var fields []string
		for field := range fieldsOf(typ) {
			fields = append(fields, field)
		}
		slices.Sort(fields)
		if !slices.Equal(documented, fields) {
			t.Errorf("%s: documented are %v, there are %v", typ.Name(), documented, fields)
		}
		if schema["additionalProperties"] == false && strings.HasSuffix(typ.Name(), "Request") {
			continue // what a client must send is more than what it always sends
		}
		for field, always := range fieldsOf(typ) {
			required, _ := schema["required"].([]any)
			if always && !slices.Contains(required, any(field)) && typ != reflect.TypeFor[client.Snoozing]() && typ != reflect.TypeFor[client.QueuePatch]() {
				t.Errorf("%s.%s is always there, and not required", typ.Name(), field)
			}
		}
	}
	for name := range objects {
		t.Errorf("the schema %s is that of no wire type", name)
	}
}

// fieldsOf are the JSON members of a struct, and whether each is always there.
func fieldsOf(typ reflect.Type) map[string]bool {
	out := map[string]bool{}
	for i := range typ.NumField() {
		if tag := typ.Field(i).Tag.Get("json"); tag != "" && tag != "-" {
			name, options, _ := strings.Cut(tag, ",")
			out[name] = options != "omitempty"
		}
	}
	return out
}

// checked sends requests, and holds them and their answers to the document.
type checked struct {
	t        *testing.T
	contract *contract
	next     http.RoundTripper
}

// RoundTrip implements [http.RoundTripper]. It reads answers that end; a stream
// is checked by whoever reads it.
func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := c.contract.answer(r, resp.StatusCode, resp.Header, body); err != nil {
		c.t.Error(err)
	}
	if resp.StatusCode/100 == 2 {
		if err := c.contract.request(r, sent); err != nil {
			c.t.Error(err)
		}
	}
	return resp, nil
}

// TestOpenAPIAnswers calls every operation of a real node, and holds requests
// and answers to the document.
func TestOpenAPIAnswers(t *testing.T) {
	document, err := fetchDocument()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newContract(document) // its own: it notes what was seen
	if err != nil {
		t.Fatal(err)
	}
	const secret = "the-secret-of-an-operator-is-long"
	n := start(t, node.Config{Version: "1.2.3", AdminToken: secret})
	h := &http.Client{Transport: &checked{t, c, http.DefaultTransport}}
	call := func(method, path, body string) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, n.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		resp, err := h.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	everyOperation(t, call)
	readEvents(t, c, n.url, secret, call)
	for op := range node.Routes() {
		if op == "POST /v1/handover" {
			continue // needs another node: the tests of the whole program have two
		}
		if !c.seen[op+" 200"] && !c.seen[op+" 201"] {
			t.Errorf("%s was never answered with success", op)
		}
	}
	for _, must := range []string{
		"POST /v1/jobs 201", "POST /v1/jobs 400", "POST /v1/jobs 409", "POST /v1/jobs 413", "POST /v1/jobs 429", "GET /v1/jobs/{id} 404",
		"POST /v1/jobs/{id}/ack 409", "POST /v1/jobs/{id}/retry 409", "GET /v1/queues/{queue} 404", "GET /v1/jobs 403",
		"GET /v1/queues 401", "POST /v1/handover 409",
	} {
		if !c.seen[must] {
			t.Errorf("%s was not seen", must)
		}
	}
}

// everyOperation calls each that ends by itself.
func everyOperation(t *testing.T, call func(method, path, body string) []byte) {
	const full = `{"queue":"full","type":"t","payload":{"a":[1,null]},"priority":5,"max_attempts":2,"timeout_ms":60000,"tags":{"k":"v"},
		"backoff":{"kind":"exponential","base_ms":1000,"max_ms":60000},"idempotency_key":"k","expires_at_ms":1900000000000,
		"durability":"local","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`
	lease := func(queue, rest string) string {
		t.Helper()
		var claims client.Claims
		call("POST", "/v1/jobs", `[{"queue":"`+queue+`"},{"queue":"`+queue+`","delay_ms":3600000}]`)
		decodeInto(t, call("POST", "/v1/claims", `{"queues":["`+queue+`"],"worker":"w","lease_ms":30000`+rest+`}`), &claims)
		if len(claims.Jobs) != 1 {
			t.Fatalf("claimed %+v", claims)
		}
		return claims.Jobs[0].Lease
	}
	single := func(action, members string) {
		t.Helper()
		l := lease("single", "")
		call("POST", "/v1/jobs/"+strings.Split(l, ".")[1]+"/"+action, `{"lease":"`+l+`"`+members+`}`)
	}
	call("POST", "/v1/jobs", full)
	call("POST", "/v1/jobs", full) // is there already
	call("POST", "/v1/jobs", strings.Replace(full, `"priority":5`, `"priority":6`, 1))
	call("POST", "/v1/jobs", `{"queue":"full","payload":"`+strings.Repeat("x", 1<<20)+`"}`)
	call("POST", "/v1/jobs", `{"queue":"full","no":1}`)
	call("POST", "/v1/claims", `{"queues":["full"],"max":2}`)
	call("GET", "/v1/jobs/1?wait_ms=10", "")
	call("GET", "/v1/jobs/4711", "")
	for _, s := range [][2]string{
		{"ack", `,"result":{"n":1}`},
		{"fail", `,"error":"no","retry_in_ms":null`},
		{"release", ""},
		{"snooze", `,"delay_ms":1000`},
		{"extend", `,"lease_ms":60000,"progress":50`},
	} {
		single(s[0], s[1])
	}
	l := lease("batch", "")
	call("POST", "/v1/extends", `{"extends":[{"lease":"`+l+`","progress":[1]},{"lease":"gone"}]}`)
	call("POST", "/v1/acks", `{"acks":[{"lease":"`+l+`"},{"lease":"`+l+`"}],"durability":"local"}`)
	id := strings.Split(l, ".")[1]
	call("POST", "/v1/jobs/"+id+"/ack", `{"lease":"`+l+`"}`) // is over
	call("POST", "/v1/jobs/"+id+"/retry", "")                // is not dead
	call("POST", "/v1/fails", `{"fails":[{"lease":"`+lease("batch", "")+`","error":"x","fatal":true}]}`)
	call("POST", "/v1/releases", `{"releases":[{"lease":"`+lease("batch", "")+`"}]}`)
	call("POST", "/v1/snoozes", `{"snoozes":[{"lease":"`+lease("batch", "")+`","delay_ms":5}]}`)
	carried := lease("batch", "")
	lease("batch", `,"max":1,"wait_ms":1000,"acks":[{"lease":"`+carried+`"}],"fails":[{"lease":"`+carried+`"}]`)

	dead := func() string {
		t.Helper()
		l := lease("dead", "")
		call("POST", "/v1/fails", `{"fails":[{"lease":"`+l+`","error":"x","fatal":true}]}`)
		return "/v1/jobs/" + strings.Split(l, ".")[1]
	}
	call("POST", dead()+"/retry", `{"payload":[2]}`)
	archived := dead()
	call("POST", archived+"/archive", "")
	call("POST", archived+"/cancel", "")
	call("DELETE", archived, "")
	var waiting client.Enqueued
	decodeInto(t, call("POST", "/v1/jobs", `{"queue":"later","delay_ms":3600000}`), &waiting)
	call("POST", "/v1/jobs/"+waiting.ID+"/cancel", "")
	dead()
	call("POST", "/v1/dead/retry", `{"queue":"dead","dry_run":true,"since_ms":1,"before_ms":1900000000000}`)
	call("POST", "/v1/dead/retry", `{"queue":"dead","type":"default","limit":10}`)
	dead()
	call("GET", "/v1/dead/groups", "")
	call("GET", "/v1/dead/groups?queue=dead&type=default&tag=k:v&error=0123456789abcdef&since_ms=1&before_ms=1900000000000&limit=1", "")
	call("POST", "/v1/dead/archive", `{"queue":"dead"}`)

	call("PATCH", "/v1/queues/small", `{"create":true,"max_depth":1,"max_attempts":3,"timeout_ms":1000,"lease_ms":5000,"durability":"local",
		"backoff":{"kind":"list","delays_ms":[1,2]},"retention_ms":{"done":1000,"dead":-1},"keep_last":{"done":5}}`)
	call("POST", "/v1/jobs", `[{"queue":"small"},{"queue":"small"}]`)
	call("GET", "/v1/queues", "")
	call("PATCH", "/v1/queues/small", `{"max_attempts":null,"backoff":null,"retention_ms":null,"keep_last":{"done":null},"durability":""}`)
	call("POST", "/v1/queues/small/pause", "")
	call("GET", "/v1/queues/small", "")
	call("POST", "/v1/queues/small/resume", "")
	call("GET", "/v1/queues/small/throughput?since_ms=0", "")
	call("GET", "/v1/queues/full/throughput", "")
	call("GET", "/v1/queues/none", "")
	for _, path := range []string{
		"/v1/jobs?limit=3", "/v1/jobs?queue=batch&state=dead&payload=true", "/v1/jobs?queue=full&type=t&tag=k:v&archived=false", "/v1/export",
		"/v1/health", "/v1/health?queue=dead", "/v1/replication", "/v1/node", "/healthz", "/readyz", "/metrics", "/openapi.json", "/version",
	} {
		call("GET", path, "")
		call("HEAD", path, "")
	}
	var token client.Token
	decodeInto(t, call("POST", "/v1/tokens", `{"name":"web","scopes":["enqueue"],"queues":["m*"],"expires_in_ms":60000}`), &token)
	call("GET", "/v1/tokens", "")
	call("DELETE", "/v1/tokens/"+token.ID, "")
	call("GET", "/v1/audit?limit=1", "")
	call("POST", "/v1/handover", "") // this node's failover is manual
	call("GET", "/v1/jobs?no=1", "")
	call("PUT", "/v1/jobs", "")
	call("GET", "/v1/nothing", "")
}

// readEvents reads a stream until it has seen changes, and checks all of it.
func readEvents(t *testing.T, c *contract, url, secret string, call func(method, path, body string) []byte) {
	t.Helper()
	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	stream.Header.Set("Authorization", "Bearer "+secret)
	resp, err := http.DefaultClient.Do(stream)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	call("POST", "/v1/jobs", `{"queue":"events"}`)
	var text []byte
	for buf := make([]byte, 4096); !strings.Contains(string(text), "event: changes") || !strings.HasSuffix(string(text), "\n\n"); {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, buf[:n]...)
	}
	if err := c.answer(resp.Request, resp.StatusCode, resp.Header, text); err != nil {
		t.Error(err)
	}
	// A page of another site, and nobody.
	r := resp.Request.Clone(t.Context())
	r.URL.Path = "/v1/jobs"
	r.Header.Set("Origin", "https://example.com")
	nobody := resp.Request.Clone(t.Context())
	nobody.URL.Path = "/v1/queues"
	nobody.Header.Del("Authorization")
	for _, r := range []*http.Request{r, nobody} {
		refused, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(refused.Body)
		if err = errors.Join(err, refused.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if err := c.answer(r, refused.StatusCode, refused.Header, body); err != nil {
			t.Error(err)
		}
	}
}
