package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// policy lets pages load the node's own files and nothing else; see
// https://www.w3.org/TR/CSP3/.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const maxForm = 4 << 20 // bytes; a payload of 1 MiB takes up to three times that, encoded

var (
	//go:embed assets
	assetFiles embed.FS
	//go:embed pages
	pageFiles embed.FS
)

// Options configure New. Gate is required.
type Options struct {
	Gate    Gate
	Log     *slog.Logger     // nil: nothing is logged
	Now     func() time.Time // nil: time.Now
	Version string           // of the program; a change makes browsers load styles and scripts again
}

// Handler serves the pages. It is made by [New].
type Handler struct {
	gate    Gate
	log     *slog.Logger
	now     func() time.Time
	version string
	pages   map[string]*template.Template
	mux     *http.ServeMux
}

// New returns the handler of all pages. It panics if the embedded pages cannot
// be parsed, which is a fault of the build.
func New(o Options) *Handler {
	h := &Handler{gate: o.Gate, log: o.Log, now: o.Now, version: o.Version, mux: http.NewServeMux()}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.now == nil {
		h.now = time.Now
	}
	h.pages = parsePages()
	for pattern, serve := range h.routes() {
		h.mux.HandleFunc(pattern, h.serve(serve))
	}
	return h
}

// Patterns are what the handler serves, as patterns of [http.ServeMux].
func Patterns() []string {
	var out []string
	for pattern := range (&Handler{}).routes() {
		out = append(out, pattern)
	}
	return out
}

// page answers a request of somebody whom the gate let in, or returns an error
// and has written nothing.
type page func(w http.ResponseWriter, r *http.Request, v *Visitor) error

func (h *Handler) routes() map[string]page {
	return map[string]page{
		"GET /{$}":                      h.overview,
		"GET /queues/{queue}":           h.queue,
		"GET /queues/{queue}/{action}":  h.confirmQueue,
		"POST /queues/{queue}/{action}": h.changeQueue,
		"GET /jobs":                     h.jobs,
		"GET /jobs/{id}":                h.job,
		"GET /jobs/{id}/{action}":       h.confirmJob,
		"POST /jobs/{id}/{action}":      h.changeJob,
		"GET /dead":                     h.dead,
		"GET /dead/{action}":            h.confirmDead,
		"POST /dead/{action}":           h.stepDead,
		"GET /workers":                  h.workers,
		"GET /nodes":                    h.nodes,
		"GET /live":                     h.live,
		"GET /login":                    h.showLogin,
		"POST /login":                   h.login,
		"POST /logout":                  h.logout,
		"GET /assets/{file}":            h.asset,
	}
}

// open are the pages without a visitor.
var open = map[string]bool{"GET /login": true, "POST /login": true, "POST /logout": true, "GET /assets/{file}": true}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// serve finds out who is visiting and runs a page: the one place where its
// error becomes an answer.
func (h *Handler) serve(serve page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		var v *Visitor
		if !open[r.Pattern] {
			var err error
			if v, err = h.gate.Visitor(r); errors.Is(err, ErrLogin) {
				h.toLogin(w, r)
				return
			} else if err != nil {
				h.fail(w, r, nil, err)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := serve(w, r, v); err != nil {
			h.fail(w, r, v, err)
		}
	}
}

// toLogin sends a visitor to the login and, for a page, back from there.
func (h *Handler) toLogin(w http.ResponseWriter, r *http.Request) {
	to := "/login"
	if r.Method == http.MethodGet && r.URL.Path != "/" && r.URL.Path != "/live" {
		to += "?to=" + url.QueryEscape(r.URL.RequestURI())
	}
	if r.URL.Path == "/live" {
		http.Error(w, "a login is needed", http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fail answers with an error.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, v *Visitor, err error) {
	if r.Context().Err() != nil {
		return // nobody reads it
	}
	shown, ok := errors.AsType[*Error](err)
	if !ok {
		h.log.Error("page failed", "route", r.Pattern, "err", err)
		shown = &Error{http.StatusInternalServerError, "Something went wrong here. The node's log has the cause."}
	}
	p := h.newPage(r, v, "Sorry")
	p.Error = shown.Message
	if err := h.render(w, shown.Status, "error", p); err != nil {
		h.log.Error("page failed", "route", r.Pattern, "err", err)
		http.Error(w, shown.Message, shown.Status)
	}
}

// render answers with a page. It is made as a whole before the first byte goes
// out, so that an error can still become an answer of its own.
func (h *Handler) render(w http.ResponseWriter, status int, name string, data any) error {
	var buf bytes.Buffer
	if err := h.pages[name].ExecuteTemplate(&buf, "layout", data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // a visitor who hung up needs no word
	return nil
}

// asset serves a style, a script or an icon.
func (h *Handler) asset(w http.ResponseWriter, r *http.Request, _ *Visitor) error {
	name := r.PathValue("file")
	if _, err := fs.Stat(assetFiles, "assets/"+name); err != nil {
		return &Error{http.StatusNotFound, "There is no such file."}
	}
	w.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeFileFS(w, r, assetFiles, "assets/"+name)
	return nil
}

// base is what each page has.
type base struct {
	Title   string
	Path    string
	Version string
	Visitor *Visitor
	Node    *Node // nil where it could not be asked
	Dead    int64 // of all queues, for the navigation
	Now     time.Time
	Error   string
	Live    bool // the script keeps it up to date
}

func (h *Handler) newPage(r *http.Request, v *Visitor, title string) base {
	b := base{Title: title, Path: r.URL.Path, Version: h.version, Visitor: v, Now: h.now()}
	if v == nil {
		return b
	}
	if n, err := v.Reader.Node(r.Context()); err == nil {
		b.Node = &n
	}
	b.Live = true
	return b
}

// here reports whether a link of the navigation leads to where the visitor is.
func (b base) here(prefix string) bool {
	return b.Path == prefix || prefix != "/" && strings.HasPrefix(b.Path, prefix+"/")
}

// Here is here for the templates.
func (b base) Here(prefix string) bool { return b.here(prefix) }

// editor returns the visitor's, or why there is none.
func (v *Visitor) editor() (Editor, error) {
	if v.Editor == nil {
		return nil, &Error{http.StatusForbidden, "You cannot change anything here: " + v.ReadOnly}
	}
	return v.Editor, nil
}
