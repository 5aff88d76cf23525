//go:build unix

package tests_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// edgePlace is where an edge lives.
type edgePlace struct {
	*place
	sqlAddr string
	front   *s3server.Proxy // its own way to the bucket
}

// newEdgePlace returns the place of an edge of the root of newPlace's bucket.
func newEdgePlace(t *testing.T, s *s3server.Server) *edgePlace {
	t.Helper()
	front := s.Another(t)
	return &edgePlace{place: newPlace(t, "edge", bucket(s, "root", s.URL, front.URL)), sqlAddr: freeAddr(t), front: front}
}

// launch starts the edge without waiting for it.
func (p *edgePlace) launch(args ...string) *node {
	p.t.Helper()
	args = append([]string{"edge", "--data", p.dir, "--config", p.config, "--listen", p.addr, "--sql-listen", p.sqlAddr, "--node", p.name}, args...)
	cmd := exec.Command(p.binary(), args...)
	cmd.Env = cleanEnv(p.env...)
	return &node{process: launch(p.t, cmd), url: "http://" + p.addr, dir: p.dir}
}

// serve starts the edge and returns when it has a copy.
func (p *edgePlace) serve(args ...string) *node {
	p.t.Helper()
	n := p.launch(args...)
	n.waitReady(restoreTime)
	return n
}

// state is what the headers of an answer say of it.
type state struct {
	at   commit
	asOf time.Time
	lag  time.Duration
}

// look is a GET, with what the answer says of its age. The error is that of call.
func (n *node) look(path, token string, out any) (state, error) {
	n.t.Helper()
	var s state
	hc := &http.Client{Timeout: 30 * time.Second, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil {
			s.at = parseCommit(resp.Header.Get("Holdfast-Seq"))
			ms, _ := strconv.ParseInt(resp.Header.Get("Holdfast-As-Of"), 10, 64) // 0 without one
			s.asOf = time.UnixMilli(ms)
			ms, _ = strconv.ParseInt(resp.Header.Get("Holdfast-Lag-Ms"), 10, 64)
			s.lag = time.Duration(ms) * time.Millisecond
		}
		return resp, err
	})}
	err := call(hc, http.MethodGet, n.url+path, nil, out)
	return s, err
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// load works a primary until stop: it enqueues, claims, finishes and deletes.
type edgeLoad struct {
	n      *node
	cancel context.CancelFunc
	group  errgroup.Group
	jobs   atomic.Int64 // that were enqueued
}

func startEdgeLoad(t *testing.T, n *node) *edgeLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &edgeLoad{n: n, cancel: cancel}
	l.group.Go(func() error { return l.run(ctx) })
	t.Cleanup(func() { l.stop() })
	return l
}

func (l *edgeLoad) stop() { l.cancel(); _ = l.group.Wait() }

func (l *edgeLoad) run(ctx context.Context) error {
	c, err := client.New(l.n.url, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ctx.Err() == nil; i++ {
		specs := make([]client.Spec, 5)
		for j := range specs {
			specs[j] = client.Spec{Queue: fmt.Sprintf("q%d", j%3), Payload: fmt.Appendf(nil, `{"n":%d,"pad":%q}`, i, strings.Repeat("x", 200*(i%7)))}
		}
		if _, err := c.Enqueue(ctx, specs...); err == nil {
			l.jobs.Add(int64(len(specs)))
		}
		claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"q0", "q1", "q2"}, Worker: "load", Max: 5})
		if err != nil {
			continue // the primary is being replaced
		}
		var acks []client.Ack
		var fails []client.Fail
		for j, job := range claims.Jobs {
			if j%4 == 3 {
				fails = append(fails, client.Fail{Lease: job.Lease, Error: "no", Fatal: true})
			} else {
				acks = append(acks, client.Ack{Lease: job.Lease})
			}
		}
		_, _ = c.Ack(ctx, acks...)
		_, _ = c.Fail(ctx, fails...)
		if !sleepFor(ctx, 5*time.Millisecond) {
			return nil
		}
	}
	return nil
}

// whole is one statement over three tables that agree in every state of the
// database: the counters of the queues, and the jobs.
const whole = `select s.epoch, s.seq,
 (select coalesce(sum(scheduled + queued + running + done + dead + cancelled), 0) from queue_health), (select count(*) from job),
 (select coalesce(sum(queued), 0) from queue_health), (select count(*) from job where state = 'queued'),
 (select coalesce(sum(done), 0) from queue_health), (select count(*) from job where state = 'done'),
 (select coalesce(sum(dead), 0) from queue_health), (select count(*) from job where state = 'dead'),
 (select coalesce(sum(length(payload)), 0) from job)
 from node_status s`

// openSQL is a client of an edge's SQL.
func openSQL(t *testing.T, addr string) *sql.DB {
	t.Helper()
	db, err := sql.Open("libsql", "http://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// lookWhole asks for whole once. Only an answer that does not agree with itself
// is bad; that there is none is err.
func lookWhole(ctx context.Context, db *sql.DB) (at commit, jobs int64, bad string, err error) {
	var n [8]int64
	var payloads int64 // reads every page
	err = db.QueryRowContext(ctx, whole).Scan(&at.epoch, &at.n, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7], &payloads)
	if err != nil {
		return at, 0, "", err
	}
	for i := 0; i < len(n); i += 2 {
		if n[i] != n[i+1] {
			return at, n[1], fmt.Sprintf("at %v: %v", at, n), nil
		}
	}
	return at, n[1], "", nil
}
