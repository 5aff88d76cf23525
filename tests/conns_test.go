//go:build unix

package tests_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestConnectionsLeaveFilesForReplication: whoever opens as many connections as
// there may be open files, which needs no token, does not keep commits from
// their copy.
func TestConnectionsLeaveFilesForReplication(t *testing.T) {
	p := newPlace(t, "a", folder(filepath.Join(t.TempDir(), "copy")))
	few := filepath.Join(t.TempDir(), "holdfast")
	if err := os.WriteFile(few, fmt.Appendf(nil, "#!/bin/sh\nulimit -n 256\nexec '%s' \"$@\"\n", p.binary()), 0o700); err != nil {
		t.Fatal(err)
	}
	p.exe = few
	p.ok("init")
	n := p.serve()
	// A client that was there before.
	c := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: time.Minute}
	var replication client.Replication
	ask := func(method, path string, body, v any) {
		t.Helper()
		if err := call(c, method, n.url+path, body, v); err != nil {
			t.Fatal(err)
		}
	}
	ask("GET", "/v1/replication", nil, &replication)
	for range 400 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "a warning", func() bool { return strings.Contains(n.out.String(), "too many") })
	ask("POST", "/v1/jobs", client.Spec{Queue: "mail"}, nil)
	eventually(t, time.Minute, "the copy of a commit", func() bool {
		ask("GET", "/v1/replication", nil, &replication)
		return replication.ReplicatedSeq != nil && *replication.ReplicatedSeq == replication.Seq
	})
}
