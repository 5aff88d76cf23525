package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
	"holdfast/replicate"
)

// Here queue and replicate, which do not know each other, are introduced.

// primary is what a node needs of a [replicate.Primary].
type primary interface {
	Replica
	// Lost is closed when another node has the root.
	Lost() <-chan struct{}
	Epoch() int64
	Lineage() string
	Start(ctx context.Context, seq func() int64) error
	Notify()
	GiveWay()
	Err() error
	Stop(ctx context.Context) error
}

// acquirer is replicate.Acquire, or what a test puts in its place.
type acquirer func(ctx context.Context, opts replicate.Options) (primary, error)

func acquire(ctx context.Context, opts replicate.Options) (primary, error) {
	p, err := replicate.Acquire(ctx, opts)
	if err != nil {
		return nil, err // not p: a primary with a nil pointer in it is not nil
	}
	return p, nil
}

// noReplica is a hold on nothing, for a node that keeps no copy.
type noReplica struct{}

func (noReplica) Epoch() int64                              { return 0 } // the file's own
func (noReplica) Lineage() string                           { return "" }
func (noReplica) Start(context.Context, func() int64) error { return nil }
func (noReplica) Notify()                                   {}
func (noReplica) GiveWay()                                  {}
func (noReplica) Lost() <-chan struct{}                     { return nil }
func (noReplica) Valid() bool                               { return true }
func (noReplica) CanReplicate() bool                        { return false }
func (noReplica) Replicated(context.Context) error          { return replicate.ErrUnreplicated }
func (noReplica) Err() error                                { return nil }
func (noReplica) Stop(context.Context) error                { return nil }
func (noReplica) Status() replicate.Status                  { return replicate.Status{} }

// Inspect looks at a database for replicate, without changing it or its WAL.
// The file must not be open in another process.
//
// Errors: replicate.ErrNoDatabase, replicate.ErrForeign, replicate.ErrNewer.
func Inspect(ctx context.Context, path string) (replicate.State, error) {
	id, err := queue.Inspect(ctx, path)
	for _, known := range []struct{ theirs, ours error }{
		{queue.ErrEmptyFile, replicate.ErrNoDatabase},
		{queue.ErrForeignFile, replicate.ErrForeign},
		{queue.ErrNewerSchema, replicate.ErrNewer},
	} {
		if errors.Is(err, known.theirs) {
			err = fmt.Errorf("%w: %w", known.ours, err)
			break
		}
	}
	return replicate.State{Lineage: id.Lineage, Epoch: id.Epoch, Seq: id.Seq, Schema: id.Schema}, err
}

// Adopt makes the database in file the base of a new epoch at the next start
// of a node with cfg, whose data directory it locks meanwhile. It returns where
// it moved the files that were there, or "".
//
// Errors: *ConfigError, ErrLocked, those of [replicate.Adopt].
func Adopt(ctx context.Context, cfg Config, file string) (aside string, err error) {
	if err := cfg.Validate(); err != nil {
		return "", err
	}
	cfg = cfg.withDefaults()
	lock, err := lockData(cfg.Data)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return replicate.Adopt(ctx, cfg.replicateOptions(), file)
}

// replicateOptions are those that the configuration decides.
func (c Config) replicateOptions() replicate.Options {
	return replicate.Options{
		Dir:      c.Data,
		Database: filepath.Join(c.Data, databaseName),
		Config:   c.Replication,
		Embedded: c.Embedded,
		Node:     c.Node,
		URL:      c.Advertise,
		Schema:   queue.Schema(),
		Inspect:  Inspect,
		Logger:   c.Logger,
		Now:      now,
	}
}

// Embedded reports whether a replica is a folder in the data directory. It has
// no life of its own, and so it begins by itself.
func Embedded(dir string, r replicate.Replica) bool {
	if r.Type != replicate.TypeFile {
		return false
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, r.Path)
	return err == nil && filepath.IsLocal(rel) && rel != "."
}

// acquire takes the root for this node. Meanwhile /readyz says how that gets
// on.
func (n *node) acquire(ctx context.Context) (primary, error) {
	if n.cfg.NoReplica {
		return noReplica{}, nil
	}
	opts := n.cfg.replicateOptions()
	var logged time.Time
	opts.Progress = func(p replicate.Progress) {
		n.api.NotReady(fmt.Sprintf("restoring: %s of %s", megabytes(p.Bytes), megabytes(p.Total)))
		if now := time.Now(); now.Sub(logged) >= logProgress {
			logged = now
			n.cfg.Logger.Info("restoring", "bytes", p.Bytes, "total", p.Total,
				"rate", int64(p.Rate()), "left", p.Left().Round(time.Second).String())
		}
	}
	opts.Waiting = func(err error) { n.api.NotReady("waiting for the bucket: " + err.Error()) }
	opts.Taken = func(lock replicate.Lock) {
		n.api.Identify(client.Node{
			Node: n.cfg.Node, Role: client.RolePrimary, Session: lock.Session, Epoch: lock.Epoch, URL: n.cfg.Advertise,
		})
	}
	opts.Uploaded = n.api.feed.uploaded
	opts.Standby = func(lock replicate.Lock) {
		n.api.Identify(client.Node{Node: n.cfg.Node, Role: client.RoleStandby, Epoch: lock.Epoch, URL: n.cfg.Advertise})
		n.api.Standby(lock.Node, lock.URL)
		n.follows(lock)
	}
	opts.Yield = n.yield()
	if opts.Yield == 0 {
		n.api.NotReady("the root of the replica is being taken")
	}
	opts.Following = n.api.Follow
	return n.cfg.acquire(ctx, opts)
}

const logProgress = 5 * time.Second

// megabytes writes a size as a person reads it.
func megabytes(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d MB", n/1e6)
}

// stopReplica uploads what is left and gives the root free. An error that was
// told already is not told again.
func (n *node) stopReplica(ctx context.Context, p primary, told error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.UploadGrace)
	defer cancel()
	err := p.Stop(ctx)
	st := p.Status()
	var remote *replicate.RemoteError
	switch {
	case err == nil || told != nil && errors.Is(err, told):
		return nil
	case !errors.As(err, &remote) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("stop replication: %w", err)
	case st.ReplicatedSeq >= st.Seq:
		return fmt.Errorf("stopped, and %s has every commit, but it could not be told that this node is gone: %w", st.URL, err)
	}
	return fmt.Errorf("stopped, but %s has the commits up to %d of %d only; the others are safe in %s, and are uploaded when a node starts there: %w",
		st.URL, st.ReplicatedSeq, st.Seq, n.cfg.Data, err)
}

// NeverPrimary returns an error that wraps ErrRefused where the environment
// says that this process must not become the primary: in another region than
// the primary's, in a release command, or in a console.
func NeverPrimary(getenv func(string) string) error {
	region, home := getenv("FLY_REGION"), getenv("PRIMARY_REGION")
	reason := ""
	switch {
	case region != "" && home != "" && region != home:
		reason = fmt.Sprintf("this machine is in region %s (FLY_REGION) and the primary belongs in %s (PRIMARY_REGION)", region, home)
	case getenv("RELEASE_COMMAND") == "1":
		reason = "this is a release command (RELEASE_COMMAND=1), which has no volume"
	case strings.TrimSpace(getenv("FLY_PROCESS_GROUP")) == "fly_app_console":
		reason = "this is a console (FLY_PROCESS_GROUP=fly_app_console), not a machine of the app"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s: a node here would take the root from the one that serves", ErrRefused, reason)
}
