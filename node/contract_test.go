package node_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is /openapi.json as what requests and answers are held to. Here an
// object has no members but those that its schema names, so that nothing is
// answered that is not documented.
type contract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by JSON pointer
	seen    map[string]bool               // answers that were checked: "GET /v1/jobs 200"
}

// newContract reads the document that an API serves.
func newContract(document []byte) (*contract, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	c := &contract{doc: doc.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{}}
	closeObjects(c.doc)
	return c, c.compiler.AddResource("openapi.json", c.doc)
}

// closeObjects makes schemas refuse members that they do not name.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, object := v["properties"].(map[string]any)
		if _, told := v["additionalProperties"]; object && !told && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, item := range v {
			closeObjects(item)
		}
	}
}

// at follows a JSON pointer, whose tokens are given one by one, and then what
// is there if it is a reference. It returns the pointer of what it found.
func (c *contract) at(pointer string, tokens ...string) (value map[string]any, found string) {
	for _, token := range tokens {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	var v any = c.doc
	for _, token := range strings.Split(pointer, "/")[1:] {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, pointer
		}
		v = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	value, _ = v.(map[string]any)
	if ref, ok := value["$ref"].(string); ok && strings.HasPrefix(ref, "#/components/") && !strings.HasPrefix(ref, "#/components/schemas/") {
		return c.at(ref[1:])
	}
	return value, pointer
}

// check validates a JSON text against the schema at a pointer.
func (c *contract) check(pointer string, text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	schema := c.schemas[pointer]
	if schema == nil {
		var err error
		if schema, err = c.compiler.Compile("openapi.json#" + pointer); err != nil {
			return err
		}
		c.schemas[pointer] = schema
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// operation finds the documented operation of a request, as "GET /v1/jobs/{id}".
func (c *contract) operation(r *http.Request) (op, pointer string) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	paths, _ := c.at("", "paths")
	for path := range paths {
		if _, p := c.at("", "paths", path, strings.ToLower(method)); matches(path, r.URL.Path) && c.has(p) {
			return method + " " + path, p
		}
	}
	return "", ""
}

func (c *contract) has(pointer string) bool {
	v, _ := c.at(pointer)
	return v != nil
}

func matches(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && (!strings.HasPrefix(want[i], "{") || got[i] == "") {
			return false
		}
	}
	return true
}

// answer holds an answer to the document.
func (c *contract) answer(r *http.Request, status int, header http.Header, body []byte) error {
	op, pointer := c.operation(r)
	if op == "" { // no such path, or not with this method
		if status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusServiceUnavailable ||
			status/100 == 3 { // ServeMux cleans paths
			return nil
		}
		return fmt.Errorf("%s %s is not documented and answers %d", r.Method, r.URL.Path, status)
	}
	response, pointer := c.at(pointer, "responses", strconv.Itoa(status))
	if response == nil {
		return fmt.Errorf("%s: status %d is not documented: %s", op, status, body)
	}
	c.mu.Lock()
	c.seen[op+" "+strconv.Itoa(status)] = true
	c.mu.Unlock()
	if err := c.headers(pointer, header); err != nil {
		return fmt.Errorf("%s %d: %w", op, status, err)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s %d: content type %q: %w", op, status, header.Get("Content-Type"), err)
	}
	if content, _ := c.at(pointer, "content", media); content == nil {
		return fmt.Errorf("%s %d: the content type %s is not documented", op, status, media)
	}
	_, schema := c.at(pointer, "content", media, "schema")
	if err := c.content(media, schema, body); err != nil {
		return fmt.Errorf("%s %d: %w\n%.2000s", op, status, err, body)
	}
	return nil
}

func (c *contract) content(media, schema string, body []byte) error {
	switch media {
	case "application/x-ndjson":
		for line := range bytes.Lines(body) {
			if err := c.check(schema, line); err != nil {
				return err
			}
		}
		return nil
	case "text/event-stream":
		return c.events(body)
	case "application/json":
		return c.check(schema, body)
	}
	text, err := json.Marshal(string(body))
	if err != nil {
		return err
	}
	return c.check(schema, text)
}

// events holds the data of events to the schemas of their names.
func (c *contract) events(body []byte) error {
	schemas := map[string]string{"changes": "Changes", "position": "Position", "end": "ErrorBody"}
	for event := range strings.SplitSeq(strings.TrimSpace(string(body)), "\n\n") {
		if strings.HasPrefix(event, ":") || event == "" {
			continue
		}
		head, data, _ := strings.Cut(event, "\n")
		schema, known := schemas[strings.TrimPrefix(head, "event: ")]
		if !known {
			return fmt.Errorf("event %q is not documented", head)
		}
		if err := c.check("/components/schemas/"+schema, []byte(strings.TrimPrefix(data, "data: "))); err != nil {
			return err
		}
	}
	return nil
}

// headers checks that ours are documented, and that those are there which must.
func (c *contract) headers(pointer string, got http.Header) error {
	documented, at := c.at(pointer, "headers")
	for name := range got {
		if ours := strings.HasPrefix(name, "Holdfast-") || name == "Retry-After"; ours && documented[name] == nil {
			return fmt.Errorf("the header %s is not documented", name)
		}
	}
	for name := range documented {
		header, where := c.at(at, name)
		value := got.Get(name)
		if value == "" && header["required"] == true {
			return fmt.Errorf("the header %s is missing", name)
		}
		if value == "" {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := c.check(where+"/schema", text); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}

// request holds a request that was accepted to the document.
func (c *contract) request(r *http.Request, body []byte) error {
	op, pointer := c.operation(r)
	for name := range r.URL.Query() {
		if !c.parameter(pointer, name) {
			return fmt.Errorf("%s: the query parameter %s is not documented", op, name)
		}
	}
	wanted, at := c.at(pointer, "requestBody")
	switch {
	case len(body) == 0 && wanted["required"] == true:
		return fmt.Errorf("%s: accepted without a body", op)
	case len(body) == 0:
		return nil
	case wanted == nil:
		return fmt.Errorf("%s: a body is not documented: %s", op, body)
	}
	if err := c.check(at+"/content/application~1json/schema", body); err != nil {
		return fmt.Errorf("%s: request: %w\n%s", op, err, body)
	}
	return nil
}

// parameter reports whether an operation has a query parameter.
func (c *contract) parameter(pointer, name string) bool {
	for _, p := range c.parameters(pointer) {
		if p["in"] == "query" && p["name"] == name {
			return true
		}
	}
	return false
}

// parameters are those of an operation and of its path.
func (c *contract) parameters(pointer string) (out []map[string]any) {
	for _, at := range []string{pointer, pointer[:strings.LastIndex(pointer, "/")]} {
		v, _ := c.at(at)
		list, _ := v["parameters"].([]any)
		for _, p := range list {
			p := p.(map[string]any)
			if ref, ok := p["$ref"].(string); ok {
				p, _ = c.at(ref[1:])
			}
			out = append(out, p)
		}
	}
	return out
}

// held is the contract of the API, read once for all tests.
var held = sync.OnceValues(func() (*contract, error) {
	document, err := fetchDocument()
	if err != nil {
		return nil, err
	}
	return newContract(document)
})

func theContract(t testing.TB) *contract {
	t.Helper()
	c, err := held()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
