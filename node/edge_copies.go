package node

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"modernc.org/sqlite"

	"holdfast/node/client"
	"holdfast/node/hrana"
	"holdfast/queue"
	"holdfast/replicate"
)

const (
	copyReaders = 8 // connections to a copy for the API
	// freshWait is how long a request waits for the commit that it names.
	freshWait = 10 * time.Second
)

// copies is what an edge serves from: states of the primary's database, one
// after the other, each of which stays as it is until those who read it are done.
type copies struct {
	follower *replicate.Follower
	gate     *gate
	named    string        // the primary's URL by the configuration; empty: lock.json's
	sql      *hrana.Driver // nil: SQL is not served
}

// pool opens connections to one copy. It is a [driver.Connector], and also the
// [driver.Driver], by which it is found again from a *sql.DB.
type pool struct {
	sqlite sqlite.Driver
	path   string
	dsn    string
	sql    *sql.DB   // guarded connections for SQL clients; nil: they are not served
	at     queue.Seq // of the copy, once it was looked at
}

// open is [replicate.FollowOptions.Open].
func (c *copies) open(path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Opaque: url.PathEscape(path)}
	p := &pool{path: path, dsn: u.String() + "?mode=ro&immutable=1"}
	if c.sql != nil {
		p.sql = c.sql.Open(p.dsn)
		p.sql.SetMaxOpenConns(sqlConns)
		p.sql.SetMaxIdleConns(sqlConns)
	}
	db := sql.OpenDB(p)
	db.SetMaxOpenConns(copyReaders)
	db.SetMaxIdleConns(copyReaders)
	return db, nil
}

// Connect implements [driver.Connector].
func (p *pool) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.sqlite.Open(p.dsn + "&_pragma=query_only(1)&_pragma=mmap_size(0)")
}

// Driver implements [driver.Connector].
func (p *pool) Driver() driver.Driver { return p }

// Open implements [driver.Driver].
func (p *pool) Open(string) (driver.Conn, error) { return p.Connect(context.Background()) }

// Close is called when the *sql.DB is closed.
func (p *pool) Close() error {
	if p.sql == nil {
		return nil
	}
	return p.sql.Close()
}

// poolOf is the pool of a database that copies.open returned.
func poolOf(db *sql.DB) *pool { return db.Driver().(*pool) }

// look is [replicate.FollowOptions.Seq]. Its tokens are in force just before a
// copy is served, so that none is read without them.
func (c *copies) look(ctx context.Context, db *sql.DB) (int64, error) {
	id, err := queue.InspectCopy(ctx, db)
	if err != nil {
		return 0, err
	}
	tokens, err := queue.ReadAccessTokens(ctx, db)
	if err != nil {
		return 0, err
	}
	c.gate.keep(tokens)
	poolOf(db).at = queue.Seq{Epoch: id.Epoch, N: id.Seq}
	return id.Seq, nil
}

// acquire is for [queue.NewReader]: the newest state.
func (c *copies) acquire(context.Context) (*sql.DB, func(), error) {
	v, err := c.follower.Acquire()
	if err != nil {
		return nil, nil, errNoCopy
	}
	return v.DB, v.Release, nil
}

// Acquire implements [hrana.Source].
func (c *copies) Acquire(context.Context) (hrana.Snapshot, error) {
	v, err := c.follower.Acquire()
	if err != nil {
		return hrana.Snapshot{}, fmt.Errorf("%w: %w", hrana.ErrUnavailable, err)
	}
	p := poolOf(v.DB)
	return hrana.Snapshot{DB: p.sql, Seq: p.at.String(), AsOf: v.Position.AsOf, Release: v.Release}, nil
}

var errNoCopy = &apiError{code: client.CodeUnavailable, message: "this edge has no copy of the database yet"}

// newest returns what the newest state is, and how large its file.
func (c *copies) newest() (at queue.Seq, asOf time.Time, bytes int64) {
	v, err := c.follower.Acquire()
	if err != nil {
		return at, asOf, 0
	}
	defer v.Release()
	p := poolOf(v.DB)
	return p.at, v.Position.AsOf, sizeOf(p.path)
}

// stamp states what an answer shows, and how old that is.
func stamp(h http.Header, at queue.Seq, asOf time.Time) {
	h.Set(seqHeader, at.String())
	h.Set(asOfHeader, strconv.FormatInt(asOf.UnixMilli(), 10))
	h.Set(lagHeader, strconv.FormatInt(lagOf(asOf).Milliseconds(), 10))
}

func lagOf(asOf time.Time) time.Duration { return max(0, time.Since(asOf)) }

// hold is a request's hold on one state of the copies: all of the answer comes
// from it. It is the request's ResponseWriter too, and lets go of the state with
// the first byte of the answer: a client that reads slowly must not keep the
// edge from getting on.
type hold struct {
	http.ResponseWriter
	copies *copies
	want   freshness
	view   *replicate.View // nil: none
	at     queue.Seq       // of view
}

// take takes the newest state, once that is as new as the request wants.
// Errors: *apiError, those of ctx.
func (h *hold) take(ctx context.Context) error {
	timer := time.NewTimer(freshWait)
	defer timer.Stop()
	for {
		changed := h.copies.follower.Changed()
		if err := h.renew(); err != nil {
			return err
		}
		if !before(h.at, h.want.minSeq) {
			break
		}
		h.release()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return &apiError{code: client.CodeStale, message: fmt.Sprintf("this edge has %s, and not %s within %s", h.at, h.want.minSeq, freshWait)}
		}
	}
	if lag := lagOf(h.view.Position.AsOf); h.want.bounded && lag > h.want.maxLag {
		h.release()
		return &apiError{code: client.CodeStale, message: fmt.Sprintf("what this edge has may be %d ms old, and %s allows %d", lag.Milliseconds(), maxLagParam, h.want.maxLag.Milliseconds())}
	}
	return nil
}

// renew lets go of the state and takes the newest.
func (h *hold) renew() error {
	h.release()
	v, err := h.copies.follower.Acquire()
	if err != nil {
		return errNoCopy
	}
	h.view, h.at = v, poolOf(v.DB).at
	stamp(h.Header(), h.at, v.Position.AsOf)
	return nil
}

// release lets go of the state. It may be called more than once.
func (h *hold) release() {
	if h != nil && h.view != nil {
		h.view.Release()
		h.view = nil
	}
}

// WriteHeader implements [http.ResponseWriter].
func (h *hold) WriteHeader(status int) {
	h.release()
	h.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (h *hold) Write(b []byte) (int, error) {
	h.release()
	return h.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (h *hold) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// acquire is for [queue.NewReader]: the state that is held.
func (h *hold) acquire(context.Context) (*sql.DB, func(), error) {
	if h.view == nil {
		return nil, nil, errNoCopy
	}
	return h.view.DB, func() {}, nil
}

type holdKey struct{}

// holdOf returns the hold of a request; nil: it has none.
func holdOf(r *http.Request) *hold {
	h, _ := r.Context().Value(holdKey{}).(*hold)
	return h
}
