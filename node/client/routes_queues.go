package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Queues returns every queue with its counts.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	var out Queues
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/queues"}, &out); err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	return out.Queues, nil
}

// Queue returns a queue with all its settings.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	return c.queue(ctx, call{method: http.MethodGet, path: queuePath(name, "")}, "queue")
}

// UpdateQueue changes the settings of a queue, and returns it as it is then.
// They hold for the jobs that are there too.
func (c *Client) UpdateQueue(ctx context.Context, name string, patch QueuePatch) (Queue, error) {
	return c.queue(ctx, call{method: http.MethodPatch, path: queuePath(name, ""), body: patch}, "update queue")
}

// Pause stops a queue from handing out jobs. What runs goes on, and jobs can be
// enqueued.
func (c *Client) Pause(ctx context.Context, queue string) (Queue, error) {
	return c.queue(ctx, call{method: http.MethodPost, path: queuePath(queue, "/pause")}, "pause")
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context, queue string) (Queue, error) {
	return c.queue(ctx, call{method: http.MethodPost, path: queuePath(queue, "/resume")}, "resume")
}

func (c *Client) queue(ctx context.Context, req call, what string) (Queue, error) {
	var out Queue
	if err := c.do(ctx, req, &out); err != nil {
		return Queue{}, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}

func queuePath(name, action string) string { return "/v1/queues/" + url.PathEscape(name) + action }

// Throughput returns the minutes since a time in which a queue did something,
// oldest first.
func (c *Client) Throughput(ctx context.Context, queue string, since time.Time) ([]Minute, error) {
	var out Throughput
	query := url.Values{"since_ms": {strconv.FormatInt(since.UnixMilli(), 10)}}
	if err := c.do(ctx, call{method: http.MethodGet, path: queuePath(queue, "/throughput"), query: query}, &out); err != nil {
		return nil, fmt.Errorf("throughput: %w", err)
	}
	return out.Minutes, nil
}

// DeadGroups counts the dead jobs that req selects by queue and kind of error,
// and shows one of each. Of req, DryRun and After mean nothing here, and Limit
// is that of the groups, 1 to 1000; 0: 100.
func (c *Client) DeadGroups(ctx context.Context, req DeadRequest) (DeadGroups, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"queue": req.Queue, "type": req.Type, "tag": req.Tag, "error": req.Error,
		"since_ms": number(req.SinceMS), "before_ms": number(req.BeforeMS), "limit": number(int64(req.Limit)),
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var out DeadGroups
	if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/dead/groups", query: query}, &out); err != nil {
		return DeadGroups{}, fmt.Errorf("group dead jobs: %w", err)
	}
	return out, nil
}

// number is a parameter that is left out when it is 0.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// RetryDead takes one step of retrying the dead jobs that req selects, the
// latest first: so the caller sets the pace, and may stop.
func (c *Client) RetryDead(ctx context.Context, req DeadRequest) (DeadStep, error) {
	return c.dead(ctx, "retry", req)
}

// ArchiveDead takes one step of archiving the dead jobs that req selects.
func (c *Client) ArchiveDead(ctx context.Context, req DeadRequest) (DeadStep, error) {
	return c.dead(ctx, "archive", req)
}

func (c *Client) dead(ctx context.Context, action string, req DeadRequest) (DeadStep, error) {
	var out DeadStep
	if err := c.do(ctx, call{method: http.MethodPost, path: "/v1/dead/" + action, body: req}, &out); err != nil {
		return DeadStep{}, fmt.Errorf("%s dead jobs: %w", action, err)
	}
	return out, nil
}

// Export yields every job with its payload, its result and its failed runs, by
// id, for as long as the caller takes. Jobs change meanwhile: each is as it was
// at one moment. After an error, which is yielded with an empty Job, it ends;
// then there may be more jobs.
func (c *Client) Export(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		body, err := c.stream(ctx, call{method: http.MethodGet, path: "/v1/export"})
		if err != nil {
			yield(Job{}, fmt.Errorf("export: %w", err))
			return
		}
		defer body.Close()
		for dec := json.NewDecoder(body); ; {
			var job Job
			err := dec.Decode(&job)
			switch {
			case err == nil:
				if !yield(job, nil) {
					return
				}
				continue
			case errors.Is(err, io.EOF):
				return
			case ctx.Err() != nil:
				err = ctx.Err()
			}
			yield(Job{}, fmt.Errorf("export: cut off before its end: %w", err))
			return
		}
	}
}

// stream sends a call to the primary and returns the body of its answer, which
// may take as long as it likes once it has begun.
func (c *Client) stream(ctx context.Context, req call) (io.ReadCloser, error) {
	for hop := 0; ; hop++ {
		base := c.nodes.current()
		body, to, err := c.streamOnce(ctx, base, req)
		if err == nil {
			return body, nil
		}
		if _, ok := errors.AsType[*UnreachableError](err); !ok && !errors.Is(err, ErrNotPrimary) {
			return nil, err
		}
		if moved := c.nodes.leave(base, to); !moved || hop >= c.nodes.hops() {
			return nil, err
		}
	}
}

func (c *Client) streamOnce(ctx context.Context, base string, req call) (body io.ReadCloser, primary string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.timeout, func() { cancel(errNoAnswerInTime) }) // for its head
	defer func() {
		late.Stop()
		if err != nil {
			cancel(nil)
		}
	}()
	hr, err := c.request(ctx, base, req)
	if err != nil {
		return nil, "", err
	}
	hr.Header.Set("Accept", cmp.Or(req.media, "application/x-ndjson"))
	res, err := c.http.Do(hr)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errNoAnswerInTime) {
			return nil, "", &UnreachableError{URL: base, Err: cause}
		}
		return nil, "", unanswered(ctx, ctx, base, err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, "", nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorAnswer))
	if err != nil {
		return nil, "", unanswered(ctx, ctx, base, err)
	}
	return nil, res.Header.Get(primaryHeader), readError(res, text)
}
