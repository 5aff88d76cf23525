package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/queue"
)

const (
	edgeSync    = 100 * time.Millisecond // of the primary, for the lag
	edgeWait    = 30 * time.Second       // for an edge to have what it shall have
	edgeIdle    = 2 * time.Minute        // of counting requests
	edgeReaders = 16
	edgeQueries = 5 * time.Second
)

// edgeSuite measures an edge beside its primary: how soon it shows a job, what
// it asks of the bucket when there is nothing new, what it costs the primary, and
// how many clients it answers.
func edgeSuite(ctx context.Context, e *env, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, 2*suiteTimeout)
	defer cancel()
	s, err := openStore(ctx, e)
	if err != nil {
		return err
	}
	defer s.close()
	s.sync = edgeSync
	if err := edgeLag(ctx, e, s, r); err != nil {
		return err
	}
	s.sync = 0
	if err := edgePairs(ctx, e, s, r); err != nil {
		return err
	}
	return edgeHealth(ctx, e, r)
}

// startEdge runs an edge of a primary's replica.
func startEdge(ctx context.Context, e *env, primary *server, args ...string) (*server, error) {
	dir, err := os.MkdirTemp(e.dir, "edge-")
	if err != nil {
		return nil, err
	}
	edge, err := launchCommand(ctx, e, "edge", dir, append(slices.Clone(primary.env), "HOLDFAST_DATA="+dir), args...)
	if err != nil {
		return nil, err
	}
	if err := edge.waitReady(ctx); err != nil {
		edge.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", edge.cmd, err, edge.log)
	}
	return edge, nil
}

// edgeLag enqueues 100 jobs a second, and measures how long after the answer of
// the primary the edge has each; and after that what the edge asks for.
func edgeLag(ctx context.Context, e *env, s *store, r *Report) error {
	primary, err := s.start(ctx, e)
	if err != nil {
		return err
	}
	defer primary.stop()
	if err := primary.warmUp(ctx, 1); err != nil {
		return err
	}
	edge, err := startEdge(ctx, e, primary)
	if err != nil {
		return err
	}
	defer edge.stop()
	jobs, idle := pace*int(paceTime/time.Second), edgeIdle
	if e.small() {
		jobs, idle = min(jobs, e.jobs), 10*time.Second
	}
	w := &edgeWatch{}
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	g, streaming := errgroup.WithContext(streaming)
	g.Go(func() error { return w.follow(streaming, edge) })
	last, err := w.produce(ctx, primary, jobs)
	if err != nil {
		return err
	}
	for end := time.Now().Add(edgeWait); w.last.Load() < last; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) || streaming.Err() != nil {
			return fmt.Errorf("the edge has %d of %d: %w", w.last.Load(), last, errors.Join(context.Cause(streaming), ctx.Err()))
		}
	}
	stop()
	_ = g.Wait() // that it was stopped
	r.Values["edge_lag_p50_ms"], r.Values["edge_lag_p99_ms"] = w.quantiles()
	e.logf("%d jobs a second: half of them at the edge within %.0f ms, 99 %% within %.0f ms", pace, r.Values["edge_lag_p50_ms"], r.Values["edge_lag_p99_ms"])
	return edgeRequests(ctx, e, edge, idle, r)
}

// edgeWatch compares what a primary answered with what an edge has.
type edgeWatch struct {
	last atomic.Int64 // seq that the edge has

	mu   sync.Mutex
	sent []edgeJob // that the edge did not have yet, in order
	took []float64 // ms
}

type edgeJob struct {
	seq int64
	at  time.Time
}

// produce enqueues at a steady pace, and returns the seq of the last.
func (w *edgeWatch) produce(ctx context.Context, primary *server, jobs int) (seq int64, err error) {
	start := time.Now()
	for i := range jobs {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / pace)))
		if seq, err = enqueueSeq(ctx, primary.addr); err != nil {
			return 0, err
		}
		w.mu.Lock()
		w.sent = append(w.sent, edgeJob{seq, time.Now()})
		w.mu.Unlock()
	}
	return seq, nil
}

// enqueueSeq adds a job and returns its commit.
func enqueueSeq(ctx context.Context, addr string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/jobs", strings.NewReader(`{"queue":"bench","payload":1}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("enqueue: status %d, %w", resp.StatusCode, err)
	}
	_, n, _ := strings.Cut(resp.Header.Get("Holdfast-Seq"), ".")
	return strconv.ParseInt(n, 10, 64)
}

// follow reads the positions of an edge.
func (w *edgeWatch) follow(ctx context.Context, edge *server) error {
	c, err := client.New("http://"+edge.addr, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	for at, err := range c.Positions(ctx, time.Second) {
		if err != nil {
			return err
		}
		now := time.Now()
		w.last.Store(at.Seq)
		w.mu.Lock()
		for len(w.sent) > 0 && w.sent[0].seq <= at.Seq {
			w.took = append(w.took, float64(now.Sub(w.sent[0].at).Microseconds())/1000)
			w.sent = w.sent[1:]
		}
		w.mu.Unlock()
	}
	return errors.New("the stream ended")
}

func (w *edgeWatch) quantiles() (p50, p99 float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.took)
	if len(w.took) == 0 {
		return math.Inf(1), math.Inf(1)
	}
	return w.took[len(w.took)/2], w.took[len(w.took)*99/100]
}

// edgeRequests counts what an edge with nothing new asks of the bucket.
func edgeRequests(ctx context.Context, e *env, edge *server, length time.Duration, r *Report) error {
	count := func() (int64, error) {
		var st client.ReplicationStatus
		err := getJSON(ctx, "http://"+edge.addr+"/v1/replication", &st)
		return st.Requests.Get + st.Requests.List + st.Requests.Put + st.Requests.Delete, err
	}
	select { // what still was under way
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	before, err := count()
	if err != nil {
		return err
	}
	select {
	case <-time.After(length):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := count()
	if err != nil {
		return err
	}
	r.Values["edge_idle_requests_per_min"] = math.Round(float64(after-before)/length.Minutes()*100) / 100
	e.logf("an edge with nothing new: %d requests in %s", after-before, length)
	return nil
}

func getJSON(ctx context.Context, url string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: status %d", url, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// edgePairs runs enqueue against a primary with an edge and against one without,
// in turns.
func edgePairs(ctx context.Context, e *env, s *store, r *Report) error {
	jobs := e.size(httpJobs)
	measure := func(edges int) func() (float64, error) {
		return func() (float64, error) {
			n, err := s.start(ctx, e)
			if err != nil {
				return 0, err
			}
			defer n.stop()
			for range edges {
				edge, err := startEdge(ctx, e, n)
				if err != nil {
					return 0, err
				}
				defer edge.stop()
			}
			if err := n.warmUp(ctx, 1); err != nil {
				return 0, err
			}
			v, _, err := load{s: n, jobs: jobs, batch: 1}.enqueue(ctx)
			return v, err
		}
	}
	ratio, rates, err := e.pairs("enqueue with an edge", pairs, [2]func() (float64, error){measure(1), measure(0)})
	if err != nil {
		return err
	}
	r.Ratios["enqueue_with_edge_over_without"] = ratio
	r.Rates["enqueue_with_edge"], r.Rates["enqueue_without_edge"] = rates[0], rates[1]
	return nil
}

// edgeHealth asks an edge whose queue holds a million jobs how that is, by SQL.
func edgeHealth(ctx context.Context, e *env, r *Report) error {
	rows, length := deepRows, edgeQueries
	if e.jobs > 0 {
		rows, length = min(deepRows, 20*e.jobs), edgeQueries/5
	}
	dir, err := os.MkdirTemp(e.dir, "node-")
	if err != nil {
		return err
	}
	deep := filled{"", rows, queue.StateQueued, 0, 0}
	if err := deep.fill(ctx, filepath.Join(dir, "holdfast.db")); err != nil {
		return err
	}
	primary, err := startServerIn(ctx, e, dir, nil)
	if err != nil {
		return err
	}
	defer primary.stop()
	sqlAddr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	config := filepath.Join(e.dir, "edge.yml")
	text := fmt.Sprintf("dbs:\n  - path: %q\n    replica:\n      type: file\n      path: %q\n", filepath.Join(dir, "holdfast.db"), filepath.Join(dir, "replica"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	primary.env = []string{"HOLDFAST_CONFIG=" + config}
	edge, err := startEdge(ctx, e, primary, "--sql-listen", sqlAddr)
	if err != nil {
		return err
	}
	defer edge.stop()
	request := renderPost("/v2/pipeline", []byte(`{"requests":[{"type":"execute","stmt":{"sql":"select * from queue_health"}}]}`))
	want := []byte(fmt.Sprintf(`{"type":"integer","value":"%d"}`, rows))
	var rates []float64
	for range rounds {
		var done atomic.Int64
		start := time.Now()
		err := each(ctx, sqlAddr, edgeReaders, func(_ int, c *conn) error {
			for time.Since(start) < length {
				body, err := c.do(request)
				if err != nil {
					return fmt.Errorf("queue_health: %w", err)
				}
				if done.Add(1) == 1 && !strings.Contains(string(body), string(want)) {
					return fmt.Errorf("queue_health answers %.500s, want %s", body, want)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		rates = append(rates, rate(done.Load(), start, time.Now()))
	}
	r.Values["edge_health_per_s"] = median(rates)
	e.logf("%d jobs at the edge: %.0f answers a second", rows, median(rates))
	return nil
}
