package tests_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"holdfast/node/client"
)

// call sends a request and reads the answer into out, unless out is nil. A
// body of type string goes out as it is. An answer that is not a success is a
// *client.Error, a failure below HTTP any other error.
func call(hc *http.Client, method, url string, body, out any) error {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = bytes.NewBufferString(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		var e client.ErrorAnswer
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("status %d without an error body: %q", resp.StatusCode, text)
		}
		return &client.Error{Status: resp.StatusCode, Code: e.Error.Code, Message: e.Error.Message}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// post is call for a POST that must succeed.
func (n *node) post(path string, body, out any) {
	n.t.Helper()
	if err := call(http.DefaultClient, http.MethodPost, n.url+path, body, out); err != nil {
		n.t.Fatalf("POST %s: %v", path, err)
	}
}

// get is call for a GET that must succeed.
func (n *node) get(path string, out any) {
	n.t.Helper()
	if err := call(http.DefaultClient, http.MethodGet, n.url+path, nil, out); err != nil {
		n.t.Fatalf("GET %s: %v", path, err)
	}
}

// enqueue adds a job that must be taken.
func (n *node) enqueue(spec client.Spec) client.Enqueued {
	n.t.Helper()
	var job client.Enqueued
	n.post("/v1/jobs", spec, &job)
	return job
}

// claim claims up to max jobs of a queue, without waiting.
func (n *node) claim(queue string, max int) []client.Claimed {
	n.t.Helper()
	var claims client.Claims
	n.post("/v1/claims", client.ClaimRequest{Queues: []string{queue}, Worker: "test:1", Max: max}, &claims)
	return claims.Jobs
}

// claimOne claims the one job that must be there.
func (n *node) claimOne(queue string) client.Claimed {
	n.t.Helper()
	jobs := n.claim(queue, 1)
	if len(jobs) != 1 {
		n.t.Fatalf("claim from %s: got %d jobs, want 1", queue, len(jobs))
	}
	return jobs[0]
}

// job reads a job that must exist.
func (n *node) job(id string) client.Job {
	n.t.Helper()
	var job client.Job
	n.get("/v1/jobs/"+id, &job)
	return job
}

// jobs reads every job of a queue, by id.
func (n *node) jobs(queue string) map[string]client.Job {
	n.t.Helper()
	all := map[string]client.Job{}
	for after := ""; ; {
		var page client.Jobs
		n.get("/v1/jobs?limit=1000&queue="+queue+"&after="+after, &page)
		for _, job := range page.Jobs {
			all[job.ID] = job
		}
		if page.Next == nil {
			return all
		}
		after = *page.Next
	}
}

// wantError checks an error answer: its status, its code, and that the message
// holds each of parts.
func wantError(t *testing.T, err error, status int, code client.Code, parts ...string) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want status %d and code %s", err, status, code)
		return
	}
	if e.Status != status || e.Code != code {
		t.Errorf("got status %d, code %s (%s), want %d, %s", e.Status, e.Code, e.Message, status, code)
	}
	wantParts(t, e.Message, parts...)
}

// wantParts checks that text holds each of parts.
func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want it to hold %q", text, part)
		}
	}
}
