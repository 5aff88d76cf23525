package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	pollWait      = 20 * time.Second // of a claim that waits for a job
	emptyPause    = 500 * time.Millisecond
	maxAtOnce     = 1000    // jobs in a claim, items in a batch
	maxBatchBytes = 8 << 20 // of the results in a batch
	minLease      = time.Second
	settleGrace   = 5 * time.Second // for the last acks, after the handlers
)

// WorkerOptions configure a [Worker]. Queues and a handler are required.
type WorkerOptions struct {
	Queues      []string           // in this order of preference
	Handlers    map[string]Handler // by the type of the job
	Default     Handler            // for every other type; nil: such a job fails
	Concurrency int                // handlers at a time; 0: 1
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
	if len(o.Queues) == 0 {
		errs = append(errs, errors.New("no queue to work on"))
	}
	if len(o.Handlers) == 0 && o.Default == nil {
		errs = append(errs, errors.New("no handler"))
	}
	for name, h := range o.Handlers {
		if h == nil {
			errs = append(errs, fmt.Errorf("the handler for type %q is nil", name))
		}
	}
	if o.Concurrency < 0 || o.Concurrency > maxAtOnce {
		errs = append(errs, fmt.Errorf("concurrency %d is not between 1 and %d", o.Concurrency, maxAtOnce))
	}
	if o.Lease != 0 && o.Lease < minLease {
		errs = append(errs, fmt.Errorf("a lease of %s is shorter than %s", o.Lease, minLease))
	}
	return errors.Join(errs...)
}

// Worker claims jobs and runs their handlers.
type Worker struct {
	source Source
	opts   WorkerOptions
	log    *slog.Logger
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
	return &Worker{source: source, opts: opts, log: log.With("worker", opts.Name)}, nil
}

// Run works until ctx ends. Then it claims nothing more and gives back what it
// has not started; handlers that run may finish within Grace, the others are
// cancelled and their jobs given back. Run returns nil when every handler has
// returned and was reported; a handler that ignores its context holds Run up.
//
// A source that does not answer is tried again until it does. One that refuses
// the worker's claims as wrong ends Run with its error.
func (w *Worker) Run(ctx context.Context) error {
	if err := newShift(w, ctx).run(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

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
