package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	pollWait      = 20 * time.Second // of a claim that waits for a job
	emptyPause    = 500 * time.Millisecond
	maxBatchBytes = 8 << 20         // of the results and errors in a batch
	settleGrace   = 5 * time.Second // for the last acks, after the handlers
)

// WorkerOptions configure a [Worker]. Queues and a handler are required.
type WorkerOptions struct {
	Queues      []string           // in this order of preference
	Handlers    map[string]Handler // by the type of the job
	Default     Handler            // for every other type; nil: such a job fails
	Concurrency int                // handlers at a time; 0: 1
	Prefetch    int                // jobs that are held for the next free handler, on top
	Lease       time.Duration      // how long a job outlives a worker that is gone; 0: 30 s
	// Grace is how long handlers may go on after Run's context ended; 0: 30 s,
	// negative: not at all.
	Grace  time.Duration
	Name   string       // unique to the process; empty: see WorkerName
	Logger *slog.Logger // nil: nothing is logged
}

// Validate returns all that is wrong with o, or nil.
func (o WorkerOptions) Validate() error {
	var errs []error
	errs = append(errs, validQueues(o.Queues)...)
	if len(o.Handlers) == 0 && o.Default == nil {
		errs = append(errs, errors.New("no handler"))
	}
	for name, h := range o.Handlers {
		if err := validName("type", name); err != nil {
			errs = append(errs, err)
		}
		if h == nil {
			errs = append(errs, fmt.Errorf("the handler for type %q is nil", name))
		}
	}
	if o.Concurrency < 0 || o.Concurrency > MaxItems {
		errs = append(errs, fmt.Errorf("concurrency %d is not between 1 and %d", o.Concurrency, MaxItems))
	}
	if o.Prefetch < 0 || o.Prefetch > MaxItems-max(o.Concurrency, 1) {
		errs = append(errs, fmt.Errorf("prefetch %d is not between 0 and %d less the concurrency", o.Prefetch, MaxItems))
	}
	if o.Lease != 0 && (o.Lease < MinLease || o.Lease > MaxLease) {
		errs = append(errs, fmt.Errorf("a lease of %s is not between %s and %s", o.Lease, MinLease, MaxLease))
	}
	return errors.Join(errs...)
}

func validQueues(names []string) []error {
	if len(names) == 0 {
		return []error{errors.New("no queue to work on")}
	}
	var errs []error
	if len(names) > MaxQueues {
		errs = append(errs, fmt.Errorf("%d queues are more than %d", len(names), MaxQueues))
	}
	for i, name := range names {
		if err := validName("queue", name); err != nil {
			errs = append(errs, err)
		}
		if slices.Contains(names[:i], name) {
			errs = append(errs, fmt.Errorf("queue %q is named twice", name))
		}
	}
	return errs
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]*$`)

// validName checks a name as a node does, which would refuse each claim.
func validName(what, name string) error {
	if len(name) > MaxName || !nameForm.MatchString(name) {
		return fmt.Errorf("%s %.*q: use letters, digits and . _ : - and begin with a letter or digit, at most %d bytes", what, MaxName, name, MaxName)
	}
	return nil
}

// Worker claims jobs and runs their handlers.
type Worker struct {
	source Source
	opts   WorkerOptions
	log    *slog.Logger
	hurry  chan struct{} // closed by StopNow
	once   sync.Once
}

// NewWorker returns a worker that takes its jobs from source. The error says
// what is wrong with opts.
func NewWorker(source Source, opts WorkerOptions) (*Worker, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	opts.Concurrency = max(opts.Concurrency, 1)
	opts.Lease = cmp.Or(opts.Lease, 30*time.Second)
	opts.Grace = max(cmp.Or(opts.Grace, 30*time.Second), 0)
	opts.Name = cmp.Or(opts.Name, WorkerName())
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Worker{source: source, opts: opts, log: log.With("worker", opts.Name), hurry: make(chan struct{})}, nil
}

// Run works until ctx ends. Then it claims nothing more and gives back what it
// has not started; handlers that run may finish within Grace, the others are
// cancelled and their jobs given back. Run returns nil when every handler has
// returned and was reported; a handler that ignores its context holds Run up.
//
// A node that does not answer is tried again until it does. One that refuses
// the worker's claims as wrong ends Run with its error.
//
// A line is logged for every run that ended: the job, its queue and type, the
// attempt, how long it took, and its outcome.
func (w *Worker) Run(ctx context.Context) error {
	if err := newShift(w, ctx).run(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// StopNow stops Run without its grace: handlers are cancelled at once and their
// jobs given back. It may be called at any time and more than once, and does
// not wait.
func (w *Worker) StopNow() { w.once.Do(func() { close(w.hurry) }) }

// handler returns the one for a job's type.
func (w *Worker) handler(kind string) Handler {
	if h := w.opts.Handlers[kind]; h != nil {
		return h
	}
	if w.opts.Default != nil {
		return w.opts.Default
	}
	return func(context.Context, Claimed) (any, error) {
		known := slices.Sorted(maps.Keys(w.opts.Handlers))
		return nil, fmt.Errorf("unknown job type %q; this worker handles %s", kind, strings.Join(known, ", "))
	}
}
