package node_test

import (
	"net/url"
	"strings"
	"testing"

	"holdfast/node"
	"holdfast/node/client"
)

func TestNearest(t *testing.T) {
	known := []string{"enqueue", "queues", "claim", "ack", "list", "status"}
	for in, want := range map[string]string{
		"enqueu": "enqueue", "neqeue": "enqueue", "queue": "queues", "stauts": "status", "akc": "ack",
		"sta": "status", "STATUS": "", "zzzzzz": "", "": "", "x": "",
	} {
		if got := node.Nearest(in, known); got != want {
			t.Errorf("nearest(%q): got %q, want %q", in, got, want)
		}
	}
}

// TestNoSuchQueue: whoever misspells a queue is told its name, and the one that
// they meant if they may know of it.
func TestNoSuchQueue(t *testing.T) {
	f := secured(t)
	for _, name := range []string{"mail", "a-secret"} {
		asOK[client.Enqueued](f, adminSecret, "POST", "/v1/jobs", `{"queue":"`+name+`"}`)
	}
	some := f.token("some", []string{"mail", "mia?", "secret"}, "admin").Token
	long := strings.Repeat("m", 5000)
	for _, tt := range []struct {
		name, token, queue, want string
	}{
		{"the nearest name is told", adminSecret, "mial", `no such queue: "mial"; did you mean mail?`},
		{"also to a token for some queues", some, "mial", `no such queue: "mial"; did you mean mail?`},
		{"but no name of a queue that a token is not for", some, "secret", `no such queue: "secret"; a queue comes into being with its first job`},
		{"which others are told", adminSecret, "secret", `no such queue: "secret"; did you mean a-secret?`},
		{"nothing is made up", adminSecret, "reports", `no such queue: "reports"; a queue comes into being with its first job`},
		{"a name that is none is shown as text", adminSecret, "a\"b\n", `no such queue: "a\"b\n"; a queue`},
		{"a long one is cut", adminSecret, long, `no such queue: "` + long[:140] + `"; a queue`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path, query := url.PathEscape(tt.queue), url.QueryEscape(tt.queue)
			wantError(t, f.as(tt.token, "GET", "/v1/queues/"+path, ""), 404, client.CodeNotFound, tt.want)
			wantError(t, f.as(tt.token, "GET", "/v1/queues/"+path+"/throughput", ""), 404, client.CodeNotFound, tt.want)
			wantError(t, f.as(tt.token, "GET", "/v1/health?queue="+query, ""), 404, client.CodeNotFound, tt.want)
			wantError(t, f.as(tt.token, "GET", "/v1/jobs?queue="+query, ""), 404, client.CodeNotFound, tt.want)
		})
	}
}
