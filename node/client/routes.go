package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Claim settles req.Acks and req.Fails and waits up to req.WaitMS for jobs. An
// empty answer is no error. When ctx ends while it waits, the claim is called
// back, which takes a second at most: an answer that was under way is returned
// all the same, and the jobs of any other go to others. With an HTTPClient of
// the caller's the claim is hung up instead: the jobs of an answer that is under
// way just then stay leased to nobody until their leases end.
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (Claims, error) {
	var out Claims
	claim, done := c.recallable(ctx)
	defer done()
	err := c.do(claim, call{
		method: http.MethodPost, path: "/v1/claims", body: req,
		wait:  time.Duration(req.WaitMS) * time.Millisecond,
		limit: int64(max(req.Max, 1)+1) * maxAnswerJob, recall: true,
	}, &out)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return Claims{}, fmt.Errorf("claim: %w", err)
	}
	if len(out.Acks) != len(req.Acks) || len(out.Fails) != len(req.Fails) {
		return out, fmt.Errorf("claim: %d acks and %d fails were sent, %d and %d answered",
			len(req.Acks), len(req.Fails), len(out.Acks), len(out.Fails))
	}
	return out, nil
}

// Ack finishes runs that ended well. The results are in the order of acks; see
// [Result.Err].
func (c *Client) Ack(ctx context.Context, acks ...Ack) ([]Result, error) {
	return c.settle(ctx, "ack", "/v1/acks", AckRequest{Acks: acks}, len(acks))
}

// Fail reports runs that ended badly: their jobs are tried again, or are dead.
func (c *Client) Fail(ctx context.Context, fails ...Fail) ([]Result, error) {
	return c.settle(ctx, "fail", "/v1/fails", FailRequest{Fails: fails}, len(fails))
}

// Release gives jobs back without costing them an attempt.
func (c *Client) Release(ctx context.Context, releases ...Release) ([]Result, error) {
	return c.settle(ctx, "release", "/v1/releases", ReleaseRequest{Releases: releases}, len(releases))
}

// Snooze puts jobs off: each comes back after its delay, and its run costs no
// attempt.
func (c *Client) Snooze(ctx context.Context, snoozes ...Snoozing) ([]Result, error) {
	return c.settle(ctx, "snooze", "/v1/snoozes", SnoozeRequest{Snoozes: snoozes}, len(snoozes))
}

// Extend prolongs leases. A result's Cancel tells that the job's cancellation
// was asked for.
func (c *Client) Extend(ctx context.Context, extends ...Extend) ([]Result, error) {
	return c.settle(ctx, "extend", "/v1/extends", ExtendRequest{Extends: extends}, len(extends))
}

func (c *Client) settle(ctx context.Context, verb, path string, body any, items int) ([]Result, error) {
	if items == 0 {
		return nil, nil
	}
	var out Results
	if err := c.do(ctx, call{method: http.MethodPost, path: path, body: body}, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	if len(out.Results) != items {
		return nil, fmt.Errorf("%s: %d were sent, %d answered", verb, items, len(out.Results))
	}
	return out.Results, nil
}

// Job returns a job with its payload and the runs that did not end well.
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return c.job(ctx, call{method: http.MethodGet, path: jobPath(id, "")}, "get")
}

// Wait returns a job when it has come to an end (done, dead or cancelled), or as
// it is after d. A node that stops answers at once.
func (c *Client) Wait(ctx context.Context, id string, d time.Duration) (Job, error) {
	for end := time.Now().Add(d); ; {
		wait := min(max(time.Until(end), 0), maxWait).Truncate(time.Millisecond)
		began := time.Now()
		query := url.Values{"wait_ms": {strconv.FormatInt(wait.Milliseconds(), 10)}}
		job, err := c.job(ctx, call{method: http.MethodGet, path: jobPath(id, ""), query: query, wait: wait}, "get")
		if err != nil || job.Ended() || wait < maxWait || time.Since(began) < maxWait/2 {
			return job, err
		}
	}
}

// Ended reports whether the job is done, dead or cancelled.
func (j Job) Ended() bool { return j.State == "done" || j.State == "dead" || j.State == "cancelled" }

// Retry makes a dead job claimable again with all its attempts. A payload that
// is not empty takes the place of the job's.
func (c *Client) Retry(ctx context.Context, id string, payload json.RawMessage) (Job, error) {
	return c.job(ctx, call{method: http.MethodPost, path: jobPath(id, "/retry"), body: RetryRequest{Payload: payload}}, "retry")
}

// Cancel cancels a job: at once unless it runs. A running one is flagged, and
// its worker told with its next extend.
func (c *Client) Cancel(ctx context.Context, id string) (Job, error) {
	return c.job(ctx, call{method: http.MethodPost, path: jobPath(id, "/cancel")}, "cancel")
}

// Archive takes a dead job out of the counts and lists of dead jobs. It can
// still be retried.
func (c *Client) Archive(ctx context.Context, id string) (Job, error) {
	return c.job(ctx, call{method: http.MethodPost, path: jobPath(id, "/archive")}, "archive")
}

// Delete removes a job and all that belongs to it, unless it runs.
func (c *Client) Delete(ctx context.Context, id string) error {
	var out Deleted
	if err := c.do(ctx, call{method: http.MethodDelete, path: jobPath(id, "")}, &out); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

func (c *Client) job(ctx context.Context, req call, what string) (Job, error) {
	var out Job
	if err := c.do(ctx, req, &out); err != nil {
		return Job{}, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}

func jobPath(id, action string) string { return "/v1/jobs/" + url.PathEscape(id) + action }

// Filter selects jobs for [Client.Jobs]. The zero value selects all.
type Filter struct {
	Queue       string
	State       string // such as "dead"
	Type        string
	Tag         string // "name" or "name:value"
	Error       string // a fingerprint, as in Job.ErrorFP
	After       string // Jobs.Next of the page before
	Limit       int    // of the page; 0: the node's default
	WithPayload bool   // an answer is read up to 64 MiB: keep the limit low
}

// Jobs returns a page of jobs, without payloads unless asked.
func (c *Client) Jobs(ctx context.Context, f Filter) (Jobs, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"queue": f.Queue, "state": f.State, "type": f.Type, "tag": f.Tag, "error": f.Error, "after": f.After,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.WithPayload {
		query.Set("payload", "true")
	}
	if f.Limit > 0 {
		query.Set("limit", strconv.Itoa(f.Limit))
	}
	var out Jobs
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/jobs", query: query}, &out); err != nil {
		return Jobs{}, fmt.Errorf("list jobs: %w", err)
	}
	return out, nil
}

// Health returns the state of the queues, or of one if queue is not empty, and
// of the node's replication.
func (c *Client) Health(ctx context.Context, queue string) (Health, error) {
	query := url.Values{}
	if queue != "" {
		query.Set("queue", queue)
	}
	var out Health
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/health", query: query}, &out); err != nil {
		return Health{}, fmt.Errorf("health: %w", err)
	}
	return out, nil
}

// Replication returns how the copy of the node's database stands.
func (c *Client) Replication(ctx context.Context) (ReplicationStatus, error) {
	var out ReplicationStatus
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/replication"}, &out); err != nil {
		return ReplicationStatus{}, fmt.Errorf("replication: %w", err)
	}
	return out, nil
}

// Node returns who answers at the URL. A node answers as soon as it has taken
// its place, also while it restores.
func (c *Client) Node(ctx context.Context) (Node, error) {
	var out Node
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/node"}, &out); err != nil {
		return Node{}, fmt.Errorf("node: %w", err)
	}
	return out, nil
}

// Ready asks whether the node serves. A node that answers that it does not is
// no error.
func (c *Client) Ready(ctx context.Context) (Ready, error) {
	var out Ready
	err := c.do(ctx, call{method: http.MethodGet, path: "/readyz", accept: http.StatusServiceUnavailable}, &out)
	if err != nil {
		return Ready{}, fmt.Errorf("ready: %w", err)
	}
	return out, nil
}

// Version returns the version of the node.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var out Version
	if err := c.do(ctx, call{method: http.MethodGet, path: "/version"}, &out); err != nil {
		return Version{}, fmt.Errorf("version: %w", err)
	}
	return out, nil
}
