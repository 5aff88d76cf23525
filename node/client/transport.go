package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	maxAnswer      = 64 << 20 // bytes of an answer other than a claim's
	maxAnswerJob   = 8 << 20  // bytes of one claimed job: a payload of 1 MiB, escaped at worst
	maxErrorAnswer = 64 << 10
)

// Options configure a [Client]. The zero value works.
type Options struct {
	// HTTPClient is nil for one of its own, with keep-alive for many workers. A
	// claim through another cannot be called back: see [Client.Claim].
	HTTPClient *http.Client
	TLS        *tls.Config   // for https, unless HTTPClient is given; nil: Go's own
	Token      string        // sent as a bearer token unless empty
	Timeout    time.Duration // for an answer, on top of the wait that a call asks for; 0: 30 s
	Others     []string      // URLs of the nodes that may take over from the first
}

// Client calls one node. Its methods may be called from any goroutine.
type Client struct {
	nodes   nodes
	resend  resend
	http    *http.Client
	claims  *http.Client // for claims over TLS, which can be called back; nil: http is the caller's
	token   string
	timeout time.Duration
}

// New returns a client of the node at rawURL, such as http://127.0.0.1:7780. It
// does not connect. Where several nodes share a root, it finds the one that is
// the primary among opts.Others too, and wherever a standby sends it.
func New(rawURL string, opts Options) (*Client, error) {
	var all []string
	for _, text := range append([]string{rawURL}, opts.Others...) {
		base, err := nodeURL(text)
		if err != nil {
			return nil, err
		}
		all = append(all, base)
	}
	c := &Client{
		nodes:   nodes{all: all},
		http:    opts.HTTPClient,
		token:   opts.Token,
		timeout: cmp.Or(opts.Timeout, defaultTimeout),
	}
	if c.http == nil {
		c.http, c.claims = &http.Client{Transport: newTransport(opts.TLS)}, &http.Client{Transport: newClaimTransport(opts.TLS)}
	}
	return c, nil
}

// nodeURL brings the URL of a node into its plain form.
func nodeURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("%q is not the URL of a node; write it like http://127.0.0.1:7780", text)
	}
	return strings.TrimRight(u.Scheme+"://"+u.Host+u.EscapedPath(), "/"), nil
}

// URL returns the address of the node that the next call goes to.
func (c *Client) URL() string { return c.nodes.current() }

// Close closes connections that are idle. The client may be used again.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	if c.claims != nil {
		c.claims.CloseIdleConnections()
	}
}

// newTransport keeps more idle connections to one host than the default of
// two, because a client has only one host.
func newTransport(secure *tls.Config) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     secure,
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
}

// newClaimTransport is one whose connections carry a request at a time over TLS
// too, so that a half of one can be closed.
func newClaimTransport(secure *tls.Config) *http.Transport {
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = nil
	}
	t := newTransport(secure)
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	return t
}

// call is one request to the node.
type call struct {
	method string
	path   string
	query  url.Values
	body   any           // nil: none
	wait   time.Duration // how long the node may hold its answer back
	limit  int64         // bytes of the answer; 0: maxAnswer
	accept int           // a status that is a success besides 2xx; 0: none
	media  string        // type of a streamed answer; empty: lines of JSON
	recall bool          // it may be called back, see recallable
}

var errNoAnswerInTime = errors.New("no answer in time")

// do sends a call and decodes its answer into out. A node that is not the
// primary has done nothing, so the call goes on to the one that may be.
func (c *Client) do(ctx context.Context, req call, out any) error {
	for hop := 0; ; hop++ {
		base := c.nodes.current()
		header, err := c.once(ctx, base, req, out)
		if err == nil {
			c.resend.answered(ctx, c, header)
			return nil
		}
		switch {
		case errors.Is(err, ErrNotPrimary):
			if moved := c.nodes.leave(base, header.Get(primaryHeader)); !moved || hop >= c.nodes.hops() {
				return err
			}
		case errors.As(err, new(*UnreachableError)):
			// Without a connection nothing was sent. After it, only the caller
			// knows whether it may be sent twice.
			moved := c.nodes.leave(base, "")
			if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" || !moved || hop >= c.nodes.hops() {
				return err
			}
		default:
			return err
		}
	}
}

// once sends a call to one node.
func (c *Client) once(ctx context.Context, base string, req call, out any) (http.Header, error) {
	timed, cancel := context.WithTimeoutCause(ctx, c.timeout+req.wait, errNoAnswerInTime)
	defer cancel()
	hr, err := c.request(timed, base, req)
	if err != nil {
		return nil, err
	}
	do := c.http.Do
	if req.recall && c.claims != nil && hr.URL.Scheme == "https" {
		do = c.claims.Do
	}
	res, err := do(hr)
	if err != nil {
		return nil, unanswered(ctx, timed, base, err)
	}
	defer res.Body.Close()
	ok := res.StatusCode/100 == 2 || res.StatusCode == req.accept
	limit := cmp.Or(req.limit, int64(maxAnswer))
	if !ok {
		limit = maxErrorAnswer
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, unanswered(ctx, timed, base, err)
	case !ok:
		return res.Header, readError(res, body)
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("%s %s: the answer is longer than %d bytes", req.method, req.path, limit)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return nil, fmt.Errorf("%s %s: the answer is not that of a Holdfast node: %w", req.method, req.path, err)
	}
	return res.Header, nil
}

func (c *Client) request(ctx context.Context, base string, req call) (*http.Request, error) {
	var body io.Reader
	if req.body != nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		// A payload travels as it is: \u003c in the place of < would count six
		// times against the limits.
		enc.SetEscapeHTML(false)
		if err := enc.Encode(req.body); err != nil {
			return nil, fmt.Errorf("%s %s: %w", req.method, req.path, err)
		}
		body = &buf
	}
	target := base + req.path
	if len(req.query) > 0 {
		target += "?" + req.query.Encode()
	}
	hr, err := http.NewRequestWithContext(ctx, req.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.method, req.path, err)
	}
	hr.Header.Set("Accept", "application/json")
	if body != nil {
		hr.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		hr.Header.Set("Authorization", "Bearer "+c.token)
	}
	return hr, nil
}

// unanswered tells a caller that gave up from a node that did not answer.
func unanswered(ctx, timed context.Context, base string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if timed.Err() != nil {
		err = context.Cause(timed)
	}
	// The method and URL that net/http puts in front are ours to say.
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return &UnreachableError{URL: base, Err: err}
}

// readError turns an error answer into an *Error, also one that a proxy wrote.
func readError(res *http.Response, body []byte) error {
	var answer ErrorAnswer
	if err := json.Unmarshal(body, &answer); err == nil && answer.Error.Code != "" {
		return &Error{Status: res.StatusCode, Code: answer.Error.Code, Message: answer.Error.Message}
	}
	text := strings.Join(strings.Fields(string(body)), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return &Error{Status: res.StatusCode, Message: strings.TrimSpace("the answer is " + res.Status + " " + text)}
}
