package node

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/node/hrana"
)

// sqlConns are the connections that SQL clients are served with; hrana runs no
// more queries at a time.
const sqlConns = 4

// sqlSource hands out the primary's own file, read-only, while the queue is
// open. It implements [hrana.Source].
type sqlSource struct {
	driver *hrana.Driver
	lost   func() bool // reports whether another node may have this one's place

	mu      sync.Mutex
	db      *sql.DB // nil while there is no database to read
	revoked chan struct{}
	users   sync.WaitGroup
}

// open serves the database at path from now on.
func (s *sqlSource) open(path string) {
	u := url.URL{Scheme: "file", Opaque: url.PathEscape(path)}
	db := s.driver.Open(u.String() + "?mode=ro")
	db.SetMaxOpenConns(sqlConns)
	db.SetMaxIdleConns(sqlConns)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db, s.revoked = db, make(chan struct{})
}

// shut interrupts those who read, and returns when nobody does. The queue closes after it: it is the last to
// leave the file.
func (s *sqlSource) shut() error {
	s.mu.Lock()
	db := s.db
	s.db = nil
	s.mu.Unlock()
	if db == nil {
		return nil
	}
	close(s.revoked)
	s.users.Wait()
	return db.Close()
}

// Acquire implements [hrana.Source]. What it shows is as new as the moment.
func (s *sqlSource) Acquire(context.Context) (hrana.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil || s.lost() {
		return hrana.Snapshot{}, fmt.Errorf("%w: this node is not the primary, or not ready", hrana.ErrUnavailable)
	}
	s.users.Add(1)
	return hrana.Snapshot{DB: s.db, AsOf: time.Now(), Release: s.users.Done, Revoked: s.revoked}, nil
}

// sqlSide is what a node serves SQL with. A nil one serves nothing.
type sqlSide struct {
	source   *sqlSource // nil on an edge
	server   *http.Server
	listener net.Listener
	url      string
	cert     *certificate
}

// newSQLSide takes the port. It reads nothing yet.
func newSQLSide(ctx context.Context, cfg Config, api *API, cert *certificate, conns *connLimit) (*sqlSide, error) {
	if cfg.SQLListen == "" {
		return nil, nil
	}
	driver, err := hrana.NewDriver()
	if err != nil {
		return nil, err
	}
	source := &sqlSource{driver: driver, lost: api.lost}
	side, err := listenSQL(ctx, cfg, api, cert, conns, source)
	if err != nil {
		return nil, err
	}
	side.source = source
	return side, nil
}

// listenSQL takes the port, to serve what source hands out.
func listenSQL(ctx context.Context, cfg Config, api *API, cert *certificate, conns *connLimit, source hrana.Source) (*sqlSide, error) {
	listener, err := listen(ctx, cfg.SQLListen, "--sql-listen, HOLDFAST_SQL_LISTEN")
	if err != nil {
		return nil, fmt.Errorf("SQL: %w", err)
	}
	handler := hrana.New(hrana.Options{
		Source: source, Authorize: api.mayRead, Origins: cfg.SQLOrigins, Version: cfg.Version, Logger: cfg.Logger,
	})
	side := &sqlSide{
		server: newServer(handler, cfg), listener: conns.on(listener), cert: cert,
		url: strings.Replace(urlOf(listener.Addr(), true), "https://", "libsql://", 1),
	}
	if cert == nil {
		side.url += "?tls=0"
	}
	return side, nil
}

// serve serves until stop.
func (s *sqlSide) serve() error {
	if err := serveOn(s.server, s.listener, s.cert); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.url, err)
	}
	return nil
}

// open lets requests read the database at path.
func (s *sqlSide) open(path string) {
	if s != nil {
		s.source.open(path)
	}
}

// shut is open undone.
func (s *sqlSide) shut() error {
	if s == nil {
		return nil
	}
	return s.source.shut()
}

// stop ends serve. Requests are short, and those under way have ctx's time.
func (s *sqlSide) stop(ctx context.Context) {
	if s != nil && s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // Shutdown closed the listener, and gave up on connections
	}
}

// mayRead says what whoever makes a request may read by SQL, which knows no
// bound but columns: a token for some queues may not.
func (a *API) mayRead(r *http.Request) (hrana.Access, error) {
	if !a.gate.closed() && r.Host != "" && !isLoopback(hostOf(r.Host)) {
		return hrana.AccessNone, &hrana.RefusalError{
			Status: http.StatusForbidden, Code: "FORBIDDEN",
			Message: "the Host header must name loopback (localhost, 127.0.0.1 or [::1]): this node has no access tokens",
		}
	}
	p, err := a.gate.identify(r)
	if err == nil {
		err = p.wants(scopeView)
	}
	if err == nil {
		err = p.wantsAll()
	}
	if e := asAPIError(err); err != nil && e != nil {
		return hrana.AccessNone, &hrana.RefusalError{Status: e.status(), Code: strings.ToUpper(string(e.code)), Message: e.message}
	}
	switch {
	case err != nil:
		return hrana.AccessNone, err
	case p.may(scopePayload):
		return hrana.AccessPayload, nil
	}
	return hrana.AccessView, nil
}

// checkOrigin says what is wrong with the origin of web pages, or "".
func checkOrigin(origin string) string {
	u, err := url.Parse(origin)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "" || u.Scheme+"://"+u.Host != origin {
		return fmt.Sprintf("%q is not an origin such as https://app.example, which has no path", origin)
	}
	return ""
}
