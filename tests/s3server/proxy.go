package s3server

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Proxy passes requests on to the server, or does what a fault says.
type Proxy struct {
	URL string

	bucket  string
	forward *httputil.ReverseProxy
	ended   chan struct{} // lets go of the requests that hang

	mu     sync.Mutex
	faults []*Fault
	record []Request
}

func newProxy(bucket, backend string) *Proxy {
	p := &Proxy{bucket: bucket, ended: make(chan struct{})}
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", backend
			pr.Out.Host = pr.In.Host // it is signed
		},
		// It must add nothing to the headers, which are signed too.
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32},
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return p
}

// release ends what hangs.
func (p *Proxy) release() {
	close(p.ended)
	p.forward.Transport.(*http.Transport).CloseIdleConnections()
}

func (p *Proxy) remove(f *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = slices.DeleteFunc(p.faults, func(g *Fault) bool { return g == f })
}

// take records a request and returns the fault that hits it.
func (p *Proxy) take(r Request) (index int, fault *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = append(p.record, r)
	for _, f := range p.faults {
		if f.matches(r) {
			return len(p.record) - 1, f
		}
	}
	return len(p.record) - 1, nil
}

// answered notes the status of a request, unless the record was emptied.
func (p *Proxy) answered(index int, r Request, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if index < len(p.record) && p.record[index] == r {
		p.record[index].Status = status
	}
}

// describe says what a request is.
func (p *Proxy) describe(r *http.Request) Request {
	query := r.URL.Query()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+p.bucket), "/")
	switch {
	case r.Method == http.MethodGet && query.Get("list-type") != "":
		return Request{Op: List, Key: query.Get("prefix")}
	case r.Method == http.MethodDelete, query.Has("delete"):
		return Request{Op: Delete, Key: key}
	case key == "":
		return Request{Op: Other}
	case r.Method == http.MethodPut, r.Method == http.MethodPost:
		return Request{Op: Put, Key: key}
	}
	return Request{Op: Get, Key: key}
}

// ServeHTTP passes a request on or breaks it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	described := p.describe(r)
	index, fault := p.take(described)
	out := &recorder{ResponseWriter: w, limit: -1}
	defer func() { p.answered(index, described, out.status) }()
	if fault == nil {
		p.forward.ServeHTTP(out, r)
		return
	}
	switch fault.Do {
	case Answer:
		answer(out, r, fault)
	case CutBefore:
		panic(http.ErrAbortHandler)
	case CutAfter:
		p.forward.ServeHTTP(&discard{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	case Wait:
		if p.sleep(r.Context(), fault.Delay) {
			p.forward.ServeHTTP(out, r)
		}
	case BlackHole:
		_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
		p.hang(r.Context())
	case BlackHoleBody:
		p.hang(r.Context())
	case Truncate, Hang:
		out.limit = fault.Bytes
		if fault.Do == Hang {
			out.hang = func() { p.hang(r.Context()) }
		}
		p.forward.ServeHTTP(out, r)
	case Unconditional:
		p.forward.ServeHTTP(out, withoutConditions(r))
	}
}

// hang never answers, for as long as the client waits.
func (p *Proxy) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.ended:
	}
	panic(http.ErrAbortHandler)
}

// sleep reports whether it slept to the end.
func (p *Proxy) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
	case <-p.ended:
	}
	return false
}

// answer sends an error as S3 does. It reads the request first, as a server
// does that answers and goes on.
func answer(w http.ResponseWriter, r *http.Request, f *Fault) {
	_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
	code := f.Code
	if code == "" {
		code = map[int]string{
			403: "AccessDenied", 404: "NoSuchKey", 409: "ConditionalRequestConflict",
			412: "PreconditionFailed", 500: "InternalError", 501: "NotImplemented", 503: "SlowDown",
		}[f.Status]
	}
	body := f.Body
	if body == "" {
		body = fmt.Sprintf("%s<Error><Code>%s</Code><Message>injected</Message></Error>", xml.Header, code)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.Status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, body) // the client may be gone
	}
}

// withoutConditions returns r without its conditions, signed anew: the old
// signature covers them.
func withoutConditions(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	for _, name := range []string{"If-Match", "If-None-Match", "Authorization"} {
		out.Header.Del(name)
	}
	signed := out.Clone(r.Context())
	signed.Header.Del("Connection") // goes no further than this proxy
	signed.URL.Scheme, signed.URL.Host = "http", r.Host
	key := aws.Credentials{AccessKeyID: AccessKeyID, SecretAccessKey: SecretAccessKey}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	hash := r.Header.Get("X-Amz-Content-Sha256")
	if err := signer.SignHTTP(r.Context(), key, signed, hash, "s3", Region, time.Now()); err != nil {
		panic(err) // of a request that the SDK could sign
	}
	for _, name := range []string{"Authorization", "X-Amz-Date"} {
		out.Header.Set(name, signed.Header.Get(name))
	}
	return out
}
