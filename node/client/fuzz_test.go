package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// FuzzEvents reads any stream, in pieces of any size, and must come to its end.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"event: position\ndata: {\"epoch\":1,\"seq\":2}\n\n: alive\n\nevent: changes\ndata: {\"seq\":\"1.3\",\"changes\":[{\"id\":\"7\",\"queue\":\"q\",\"to\":\"queued\"}]}\n\n",
		"event: end\ndata: {\"code\":\"too_slow\",\"message\":\"m\"}\n\n", "event:position\r\ndata:{\r\ndata:\"seq\":1}\r\n\r\n",
		"event: other\ndata: x\n\nevent: changes\ndata: [\n\n", "data\n\n", "event: changes\n\n", ":\n\n\n",
	} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, piece int) {
		events := newEventReader(&pieces{[]byte(text), max(piece%64, 1)})
		for n := 0; ; n++ {
			event, err := events.next(func() {})
			if (err == nil) != ((event.Changes == nil) != (event.Position == nil)) {
				t.Fatalf("got %+v, %v", event, err)
			}
			if err != nil {
				return
			}
			if n > len(text) {
				t.Fatal("more events than bytes")
			}
		}
	})
}

// pieces gives its bytes out n at a time.
type pieces struct {
	left []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[:min(p.n, len(p.left))])
	p.left = p.left[n:]
	return n, nil
}

// FuzzAnswer lets a node, or what stands in front of it, answer anything.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"id":"7","queue":"mail","state":"queued"}`, `{"error":{"code":"lease_lost","message":"m"}}`, `<html>Bad Gateway</html>`, `{"error":7}`, `{"jobs":null}`, ``, "\xff", `[`,
	} {
		f.Add(200, seed, "1.7", "1.6")
		f.Add(503, seed, "x", "9223372036854775808.1")
	}
	f.Fuzz(func(t *testing.T, status int, body, seq, replicated string) {
		if status < 200 || status > 599 {
			t.Skip("is no status of an answer")
		}
		c, err := New("http://127.0.0.1:1", Options{HTTPClient: &http.Client{Transport: answers(func(r *http.Request) *http.Response {
			return &http.Response{
				StatusCode: status, Status: "000 fuzz", Request: r, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{seqHeader: {seq}, replicatedSeqHeader: {replicated}},
			}
		})}})
		if err != nil {
			t.Fatal(err)
		}
		job, err := c.Job(t.Context(), "7")
		if e, ok := errors.AsType[*Error](err); ok && (e.Status != status || e.Error() == "") {
			t.Errorf("got %+v of status %d", e, status)
		}
		if err == nil && (status/100 != 2 || !json.Valid([]byte(body))) {
			t.Errorf("got %+v of status %d", job, status)
		}
	})
}

// answers is a transport that answers by itself.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// FuzzNesting compares Nesting with what a decoder sees.
func FuzzNesting(f *testing.F) {
	for _, seed := range []string{`[[{"a":[1]}]]`, `"[{\"["`, `{"]":"\\"}`, `1`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			t.Skip("is no JSON")
		}
		depth, deepest := 0, 0
		for dec := json.NewDecoder(bytes.NewReader([]byte(text))); ; {
			token, err := dec.Token()
			if err != nil {
				break
			}
			switch token {
			case json.Delim('['), json.Delim('{'):
				depth++
				deepest = max(deepest, depth)
			case json.Delim(']'), json.Delim('}'):
				depth--
			}
		}
		if got := Nesting(json.RawMessage(text)); got != deepest {
			t.Errorf("%q: got %d, want %d", text, got, deepest)
		}
	})
}
