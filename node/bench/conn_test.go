package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestConn(t *testing.T) {
	big := strings.Repeat("y", 100<<10)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /short", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "short") })
	mux.HandleFunc("POST /chunked", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "one")
		w.(http.Flusher).Flush()
		fmt.Fprint(w, big)
	})
	mux.HandleFunc("POST /refused", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	c, err := dialConn(t.Context(), strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	// All on one connection: what one answer leaves unread breaks the next.
	for path, want := range map[string]string{"/short": "short", "/chunked": "one" + big, "/missing": "status 404", "/refused": "status 409: no"} {
		got, err := c.do(renderPost(path, []byte("{}")))
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: got %.40q, want %.40q", path, got, want)
		}
	}
}

func TestAppendLeases(t *testing.T) {
	got, err := appendLeases(nil, []byte(`{"jobs":[{"lease":"1.7.1.a","lease_until_ms":1},{"lease":"1.8.1.b"}],"acks":[{"id":"6","ok":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(bytes.Join(got, []byte(" "))); s != "1.7.1.a 1.8.1.b" {
		t.Errorf("got %q", s)
	}
}

func TestEnqueueRequestNumbersItsKeys(t *testing.T) {
	r := newEnqueueRequest(2, "replicated")
	r.number(123456)
	r.number(9) // shorter than what it writes over
	for _, want := range []string{`"bench:0000000000000009"`, `"bench:0000000000000010"`} {
		if bytes.Count(r.bytes, []byte(want)) != 1 {
			t.Errorf("no %s in %s", want, r.bytes)
		}
	}
}

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{5, 1, 3}, 3},
		{[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, tt := range tests {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median(%v): got %v, want %v", tt.values, got, tt.want)
		}
	}
}
