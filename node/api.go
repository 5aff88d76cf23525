package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// Store is what the handlers need of a [queue.Queue].
type Store interface {
	Seq() queue.Seq
	Enqueue(ctx context.Context, specs ...queue.Spec) ([]queue.Enqueued, queue.Seq, error)
	Claim(ctx context.Context, req queue.ClaimRequest) (queue.Claims, queue.Seq, error)
	Ack(ctx context.Context, acks []queue.Ack) ([]queue.Result, queue.Seq, error)
	Fail(ctx context.Context, fails []queue.Fail) ([]queue.Result, queue.Seq, error)
	Release(ctx context.Context, leases []string) ([]queue.Result, queue.Seq, error)
	Snooze(ctx context.Context, snoozes []queue.Snooze) ([]queue.Result, queue.Seq, error)
	Extend(ctx context.Context, extends []queue.Extend) ([]queue.Result, queue.Seq, error)
	Retry(ctx context.Context, id int64, payload json.RawMessage) (queue.Job, queue.Seq, error)
	Cancel(ctx context.Context, id int64) (queue.Job, queue.Seq, error)
	Archive(ctx context.Context, id int64) (queue.Job, queue.Seq, error)
	Delete(ctx context.Context, id int64) (queue.Seq, error)
	RetryDead(ctx context.Context, f queue.Filter, dryRun bool) (queue.Bulk, queue.Seq, error)
	ArchiveDead(ctx context.Context, f queue.Filter, dryRun bool) (queue.Bulk, queue.Seq, error)
	Job(ctx context.Context, id int64) (queue.Job, error)
	Wait(ctx context.Context, id int64, d time.Duration) (queue.Job, error)
	Jobs(ctx context.Context, f queue.Filter) (queue.Page, error)
	Export(ctx context.Context) iter.Seq2[queue.Job, error]
	Queues(ctx context.Context) ([]queue.Info, error)
	UpdateQueue(ctx context.Context, name string, p queue.Patch) (queue.Info, queue.Seq, error)
	Throughput(ctx context.Context, queue string, since time.Time) ([]queue.Minute, error)
}

// API serves the HTTP API. It serves from the start, but says that it is
// unavailable until [API.Open].
type API struct {
	log     *slog.Logger
	version client.Version
	csrf    *http.CrossOriginProtection
	gate    *gate // tells who makes a request
	mux     *http.ServeMux
	metrics http.Handler
	durable string        // durability of requests that name none
	maxAge  time.Duration // max_unreplicated_age; 0: off
	data    string        // the data directory, for the sizes of its files
	store   atomic.Pointer[Store]
	replica atomic.Pointer[Replica]
	self    atomic.Pointer[client.Node] // nil until the node has a session
	primary atomic.Pointer[string]      // where the primary is, while this node is a standby
	copies  *copies                     // what an edge serves from; nil: this node is none
	reasons atomic.Pointer[[]string]    // why the node is not ready; nil when it is

	follows atomic.Pointer[followStatus] // of a standby's copy; nil: there is none

	// handOver makes this node give way to a standby; nil: failover is manual.
	handOver func(context.Context) (client.Handover, error)

	fly      flyMachine
	beacon   *beacon      // shows it to this process
	running  atomic.Int64 // requests that may use the store
	stopping atomic.Bool  // claims find nothing any more

	document   func() ([]byte, error) // of /openapi.json, made when it is first asked for
	feed       *feed                  // of GET /v1/events
	eventTimes eventTimes
	settings   settings // of the queues
	watcher    watcher
}

// Replica is what the handlers need of a [replicate.Primary].
type Replica interface {
	Status() replicate.Status
	// Valid reports whether this node may act as the primary now.
	Valid() bool
	// CanReplicate reports whether Replicated can succeed at all.
	CanReplicate() bool
	// Replicated returns nil when all that was committed before it is in object
	// storage, and no other node can have begun without it.
	Replicated(ctx context.Context) error
}

// NewAPI returns an API without a store. It uses the Logger, Version, Commit
// and Data of cfg.
func NewAPI(cfg Config) *API {
	a := &API{
		log:     cfg.withDefaults().Logger,
		version: Versions(cfg.Version, cfg.Commit),
		csrf:    http.NewCrossOriginProtection(),
		gate:    newGate(cfg),
		data:    cfg.Data,
		beacon:  newBeacon(),
		fly:     thisFlyMachine(os.Getenv),
		durable: cmp.Or(cfg.Replication.Durability, replicate.DurabilityLocal),
		maxAge:  cfg.Replication.MaxUnreplicatedAge,
		feed:    newFeed(),

		document: sync.OnceValues(openapiDocument),

		eventTimes: defaultEventTimes,
	}
	a.metrics = newMetrics(a)
	a.NotReady("the database is being opened")
	a.mux = a.newMux()
	return a
}

// Open lets requests in: from now on they are served from s.
func (a *API) Open(s Store) {
	a.primary.Store(nil)
	a.follows.Store(nil)
	a.settings.forget()
	a.learn(context.Background(), s)
	a.feed.open(s.Seq())
	a.store.Store(&s)
	a.reasons.Store(nil)
	a.beacon.turn(true)
}

// Shut lets no further request in, until it is opened again.
func (a *API) Shut(reason string) {
	a.NotReady(reason)
	a.store.Store(nil)
	a.replica.Store(nil)
	a.self.Store(nil)
	a.feed.cut(&apiError{code: client.CodeNotPrimary, message: reason})
}

// Standby makes the API send everyone to the primary, whose URL may be empty.
func (a *API) Standby(node, url string) {
	a.primary.Store(&url)
	a.NotReady(fmt.Sprintf("standby: node %q is the primary", node))
	a.beacon.turn(true)
}

// Replicate makes the API tell how r stands. Once r is lost, no answer is given
// as a success any more.
func (a *API) Replicate(r Replica) { a.replica.Store(&r) }

// Identify makes the API say who this node is, which it does also before it is
// open.
func (a *API) Identify(self client.Node) { a.self.Store(&self) }

// NotReady makes the API say why it is not ready.
func (a *API) NotReady(reason string) {
	a.reasons.Store(&[]string{reason})
	a.beacon.turn(false)
}

// Stop makes the API say that it is not ready, and ends the streams of events.
// Requests are still served.
func (a *API) Stop() {
	a.stopping.Store(true)
	a.NotReady("the node is stopping")
	a.feed.cut(errStopping)
}

// lost reports whether another node may have taken this one's place.
func (a *API) lost() bool {
	r := a.replica.Load()
	return r != nil && !(*r).Valid()
}

// unavailable says why nothing is served, or returns nil.
func (a *API) unavailable(w http.ResponseWriter, r *http.Request) error {
	if a.copies != nil && !edgeServes(r) {
		a.sendTo(w, r, a.copies.primary())
		return errReadOnly
	}
	if url := a.primary.Load(); url != nil {
		a.sendTo(w, r, *url)
		where := "its primary has not said where it is (advertise)"
		if *url != "" {
			where = "the primary is " + *url
		}
		return &apiError{code: client.CodeNotPrimary, message: "this node is a standby; " + where}
	}
	if a.lost() {
		return &apiError{code: client.CodeNotPrimary, message: errLost.Error()}
	}
	if a.store.Load() == nil {
		return &apiError{code: client.CodeUnavailable, message: "the node is starting"}
	}
	return nil
}

// sendTo tells a client where the primary is, if that is known.
func (a *API) sendTo(w http.ResponseWriter, r *http.Request, url string) {
	if url == "" {
		return
	}
	w.Header().Set(primaryHeader, url)
	if to := a.fly.replayTo(url, r); to != "" {
		w.Header().Set(flyReplay, to)
	}
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.logged(w, r, a.serveHTTP) }

func (a *API) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if err := guard(a.csrf, r, a.gate.closed()); err != nil {
		a.fail(w, r, err)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") && r.URL.Path != nodePath {
		if err := a.unavailable(w, r); err != nil {
			a.fail(w, r, err)
			return
		}
		// Taken before a read, so that what the answer shows is at least as
		// new; a write puts its own in its place.
		if store := a.store.Load(); a.copies != nil {
			at, asOf, _ := a.copies.newest()
			stamp(w.Header(), at, asOf)
		} else if store != nil {
			setSeq(w, (*store).Seq())
		}
	}
	a.mux.ServeHTTP(w, r)
}

func setSeq(w http.ResponseWriter, seq queue.Seq) {
	w.Header().Set(seqHeader, seq.String())
}

// wrote sets the headers of the answer to a write: its commit, and the one up
// to which all are in the replica.
func (a *API) wrote(w http.ResponseWriter, seq queue.Seq) {
	setSeq(w, seq)
	if r := a.replica.Load(); r != nil {
		w.Header().Set(replicatedSeqHeader, queue.Seq{Epoch: seq.Epoch, N: (*r).Status().ReplicatedSeq}.String())
	}
}
