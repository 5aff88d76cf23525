package node_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/queue"
)

func TestGuard(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	tests := []struct {
		name    string
		method  string
		host    string
		headers map[string]string
		want    int
	}{
		{"curl -d passes", "POST", "127.0.0.1:7780", map[string]string{"Content-Type": form}, 201},
		{"localhost passes", "POST", "localhost:7780", nil, 201},
		{"LOCALHOST without a port passes", "POST", "LOCALHOST", nil, 201},
		{"IPv6 passes", "POST", "[::1]:7780", nil, 201},
		{"IPv6 without a port passes", "POST", "[::1]", nil, 201},
		{"another loopback address passes", "POST", "127.8.9.1:7780", nil, 201},
		{"a health check without a host passes", "GET", "", nil, 200},
		{"a page of the node itself passes", "POST", "localhost:7780", map[string]string{"Origin": "http://localhost:7780", "Sec-Fetch-Site": "same-origin"}, 201},
		{"a rebound name is refused", "POST", "evil.example:7780", nil, 403},
		{"a rebound name is refused for reads", "GET", "evil.example", nil, 403},
		{"a name that begins like loopback is refused", "GET", "127.0.0.1.evil.example", nil, 403},
		{"a name below localhost is refused", "GET", "localhost.evil.example", nil, 403},
		{"another address of the machine is refused", "GET", "192.168.1.10:7780", nil, 403},
		{"the unspecified address is refused", "GET", "0.0.0.0:7780", nil, 403},
		{"a foreign origin is refused", "POST", "localhost:7780", map[string]string{"Origin": "https://evil.example"}, 403},
		{"a foreign origin is refused for reads", "GET", "localhost:7780", map[string]string{"Origin": "https://evil.example"}, 403},
		{"an opaque origin is refused", "POST", "localhost:7780", map[string]string{"Origin": "null"}, 403},
		{"a form of a foreign page is refused", "POST", "localhost:7780", map[string]string{"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}, 403},
		{"a page of another local port is refused", "POST", "localhost:7780", map[string]string{"Origin": "http://localhost:3000"}, 403},
		{"a page of another local port is refused by site", "POST", "localhost:7780", map[string]string{"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"}, 403},
	}
	for site, want := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403} {
		t.Run(fmt.Sprintf("a read of the API with Sec-Fetch-Site %q gets %d", site, want), func(t *testing.T) {
			f := over(t, &stub{})
			r := httptest.NewRequest("GET", "/v1/queues", nil)
			r.Host = "localhost:7780"
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			w := httptest.NewRecorder()
			f.api.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("got %d: %s", w.Code, w.Body)
			}
		})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			enqueued := 0
			f := over(t, &stub{enqueue: func(specs []queue.Spec) ([]queue.Enqueued, error) {
				enqueued += len(specs)
				return make([]queue.Enqueued, len(specs)), nil
			}})
			path, body := "/v1/jobs", `{"queue":"mail"}`
			if tt.method == "GET" {
				path, body = "/readyz", ""
			}
			r := httptest.NewRequest(tt.method, path, strings.NewReader(body))
			r.Host = tt.host
			for name, value := range tt.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			f.api.ServeHTTP(w, r)
			if tt.want == http.StatusForbidden {
				wantError(t, w, tt.want, client.CodeForbidden, "")
			} else if w.Code != tt.want {
				t.Errorf("status: got %d, want %d: %s", w.Code, tt.want, w.Body)
			}
			if want := map[int]int{201: 1}[tt.want]; enqueued != want {
				t.Errorf("enqueued: got %d, want %d", enqueued, want)
			}
		})
	}
}
