package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Options configure Run. Exe is required.
type Options struct {
	Exe   string // the binary to measure; run as `Exe serve …`
	Suite string // a name from Suites, or "all"; empty means "http"
	Jobs  int    // size of one measurement; 0: the suite's default
	// Config is a litestream.yml with the bucket for the suites that need one;
	// empty: they start a server.
	Config string
	Log    io.Writer // progress for a person; nil: none
}

// Validate reports everything that is wrong with o.
func (o Options) Validate() error {
	var errs []error
	if o.Exe == "" {
		errs = append(errs, errors.New("no binary to measure"))
	}
	if o.Jobs < 0 {
		errs = append(errs, fmt.Errorf("jobs must not be negative, got %d", o.Jobs))
	}
	if o.Suite != "" && o.Suite != "all" && findSuite(o.Suite) == nil {
		errs = append(errs, fmt.Errorf("unknown suite %q; there are: %s, all", o.Suite, strings.Join(Suites(), ", ")))
	}
	return errors.Join(errs...)
}

// A suite measures one thing against its yardsticks and adds to the report.
type suite struct {
	name  string
	run   func(context.Context, *env, *Report) error
	needs func(*env) error // what this machine lacks; nil: it needs nothing
}

// suites is every suite, in the order in which "all" runs them.
func suites() []suite {
	return []suite{
		{"floor", floorSuite, nil},
		{"http", httpSuite, nil},
		{"depth", depthSuite, nil},
		{"latency", latencySuite, needsStore},
		{"worker", workerSuite, nil},
		{"replication", replicationSuite, needsStore},
		{"edge", edgeSuite, needsStore},
		{"dashboard", dashboardSuite, nil},
	}
}

// Suites returns the names of the suites.
func Suites() []string {
	var names []string
	for _, s := range suites() {
		names = append(names, s.name)
	}
	return names
}

func findSuite(name string) *suite {
	for _, s := range suites() {
		if s.name == name {
			return &s
		}
	}
	return nil
}

// env is what every suite works with.
type env struct {
	exe  string
	dir  string // temporary, gone when Run returns
	jobs int
	log  io.Writer

	config string // a litestream.yml; empty: none
}

func (e *env) logf(format string, args ...any) {
	fmt.Fprintf(e.log, format+"\n", args...)
}

// Run runs a suite and returns what it measured. When ctx ends it stops its
// child processes, removes its files and returns ctx's error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Suite == "" {
		o.Suite = "http"
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	chosen := slices.DeleteFunc(suites(), func(s suite) bool { return o.Suite != "all" && o.Suite != s.name })
	e := &env{exe: o.Exe, jobs: o.Jobs, log: o.Log, config: o.Config}
	for _, s := range chosen { // before the first one takes its minutes
		if s.needs == nil {
			continue
		}
		if err := s.needs(e); err != nil {
			return nil, fmt.Errorf("suite %s: %w", s.name, err)
		}
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	machine, err := measureMachine(dir)
	if err != nil {
		return nil, err
	}
	report := newReport(o.Suite, machine)
	e.dir = dir
	for _, s := range chosen {
		if err := s.run(ctx, e, report); err != nil {
			if ctx.Err() != nil {
				// Broken connections are how the end of ctx reaches a load.
				err = ctx.Err()
			}
			return nil, fmt.Errorf("suite %s: %w", s.name, err)
		}
	}
	return report, nil
}
