package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"holdfast/node/client"
	"holdfast/queue"
)

// Store is what the handlers need of a [queue.Queue].
type Store interface {
	Seq() queue.Seq
	Enqueue(ctx context.Context, specs ...queue.Spec) ([]queue.Enqueued, queue.Seq, error)
	Claim(ctx context.Context, req queue.ClaimRequest) (queue.Claims, queue.Seq, error)
	Ack(ctx context.Context, acks []queue.Ack) ([]queue.Result, queue.Seq, error)
	Fail(ctx context.Context, fails []queue.Fail) ([]queue.Result, queue.Seq, error)
	Release(ctx context.Context, leases []string) ([]queue.Result, queue.Seq, error)
	Extend(ctx context.Context, extends []queue.Extend) ([]queue.Result, queue.Seq, error)
	Retry(ctx context.Context, id int64, payload json.RawMessage) (queue.Job, queue.Seq, error)
	Cancel(ctx context.Context, id int64) (queue.Job, queue.Seq, error)
	Job(ctx context.Context, id int64) (queue.Job, error)
	Jobs(ctx context.Context, f queue.Filter) (queue.Page, error)
	Queues(ctx context.Context) ([]queue.Info, error)
}

// API serves the HTTP API. It serves from the start, but says that it is
// unavailable until [API.Open].
type API struct {
	log     *slog.Logger
	version client.Version
	csrf    *http.CrossOriginProtection
	mux     *http.ServeMux
	store   atomic.Pointer[Store]
	reasons atomic.Pointer[[]string] // why the node is not ready; nil when it is
}

// NewAPI returns an API without a store. It uses the Logger, Version and
// Commit of cfg.
func NewAPI(cfg Config) *API {
	a := &API{
		log:     cfg.withDefaults().Logger,
		version: Versions(cfg.Version, cfg.Commit),
		csrf:    http.NewCrossOriginProtection(),
	}
	a.reasons.Store(&[]string{"the database is being opened"})
	a.mux = a.newMux()
	return a
}

// Open lets requests in: from now on they are served from s.
func (a *API) Open(s Store) {
	a.store.Store(&s)
	a.reasons.Store(nil)
}

// Stop makes the API say that it is not ready. Requests are still served.
func (a *API) Stop() {
	a.reasons.Store(&[]string{"the node is stopping"})
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := guard(a.csrf, r); err != nil {
		a.fail(w, r, err)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		store := a.store.Load()
		if store == nil {
			a.fail(w, r, &apiError{code: client.CodeUnavailable, message: "the node is starting"})
			return
		}
		// Taken before a read, so that what the answer shows is at least as
		// new; a write puts its own in its place.
		setSeq(w, (*store).Seq())
	}
	a.mux.ServeHTTP(w, r)
}

func setSeq(w http.ResponseWriter, seq queue.Seq) {
	w.Header().Set(seqHeader, seq.String())
}
