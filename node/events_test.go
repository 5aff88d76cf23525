package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
	"holdfast/queue"
)

// streaming is an API over a queue that tells it of its commits, on a network.
type streaming struct {
	t      *testing.T
	api    *node.API
	opts   queue.Options
	server *httptest.Server
	client *client.Client
	n      int64 // commits that publish made up
}

func stream(t *testing.T) *streaming {
	t.Helper()
	api := node.NewAPI(node.Config{})
	s := &streaming{t: t, api: api, opts: api.QueueOptions(), server: httptest.NewServer(api), n: 1 << 20}
	q, err := queue.Open(context.Background(), filepath.Join(t.TempDir(), "holdfast.db"), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.server.Close()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	api.Open(q)
	if s.client, err = client.New(s.server.URL, client.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

// publish tells of a made-up commit of changes.
func (s *streaming) publish(changes int) {
	all := make([]queue.Change, changes)
	for i := range all {
		all[i] = queue.Change{Job: int64(i + 1), Queue: "made-up", To: queue.StateQueued}
	}
	s.n++
	s.opts.OnChange(queue.Seq{Epoch: 1, N: s.n}, all)
	s.opts.OnCommit(queue.Seq{Epoch: 1, N: s.n})
}

// readers waits until n read events.
func (s *streaming) readers(n int) {
	s.t.Helper()
	for range 500 {
		if s.api.EventReaders() == n {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatalf("%d read events, want %d", s.api.EventReaders(), n)
}

// listen begins a stream that the test reads from, until the test ends.
func listen(t *testing.T, c *client.Client, queue string) func() client.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	next, stop := iter.Pull2(c.Events(ctx, queue))
	t.Cleanup(stop)
	return func() client.Event {
		t.Helper()
		event, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("the stream ended: %v", err)
		}
		return event
	}
}

// deaf opens a stream and never reads from it.
func (s *streaming) deaf(query string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET /v1/events%s HTTP/1.1\r\nHost: localhost\r\n\r\n", query); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func TestEventsTellTheLifeOfAJob(t *testing.T) {
	n := start(t, node.Config{})
	c, err := client.New(n.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, mine := listen(t, c, ""), listen(t, c, "mail")
	for _, next := range []func() client.Event{all, mine} {
		if first := next(); first.Position == nil || first.Position.Epoch != 1 {
			t.Fatalf("the first event is %+v, want a position", first)
		}
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Enqueue(ctx, client.Spec{Queue: "other"})
	must(err)
	_, err = c.Enqueue(ctx, client.Spec{Queue: "mail"})
	must(err)
	claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}})
	must(err)
	_, err = c.Fail(ctx, client.Fail{Lease: claims.Jobs[0].Lease, Error: "no", Fatal: true})
	must(err)
	_, err = c.Retry(ctx, "2", nil)
	must(err)
	_, err = c.Cancel(ctx, "2")
	must(err)
	must(c.Delete(ctx, "2"))

	life := []string{"→queued", "queued→running", "running→dead", "dead→queued", "queued→cancelled", "cancelled→"}
	t.Run("a queue's events are its own", func(t *testing.T) {
		told, _ := follow(t, mine, "2", len(life))
		if strings.Join(told, " ") != strings.Join(life, " ") {
			t.Errorf("got %v, want %v", told, life)
		}
	})
	t.Run("without a queue they are all", func(t *testing.T) {
		told, others := follow(t, all, "2", len(life))
		if strings.Join(told, " ") != strings.Join(life, " ") || others != 1 {
			t.Errorf("got %v and %d others, want %v and 1", told, others, life)
		}
	})
	t.Run("an upload has its position", func(t *testing.T) {
		for range 100 {
			p := all().Position
			if p == nil || p.ReplicatedSeq == nil || *p.ReplicatedSeq < p.Seq {
				continue
			}
			st, err := c.Replication(ctx)
			must(err)
			if p.TXID != st.TXID || p.Epoch != st.Epoch || p.Seq != st.Seq {
				t.Errorf("got %+v, want %+v", p, st)
			}
			return
		}
		t.Error("no position in which all is replicated")
	})
}

// follow reads events until it has n changes of a job. It returns them, and how
// many changes of others came in between.
func follow(t *testing.T, next func() client.Event, id string, n int) (told []string, others int) {
	t.Helper()
	for len(told) < n {
		event := next()
		if event.Changes == nil {
			continue
		}
		if event.Changes.Seq == "" {
			t.Errorf("no seq: %+v", event.Changes)
		}
		for _, change := range event.Changes.Changes {
			if change.ID != id {
				others++
				continue
			}
			told = append(told, change.From+"→"+change.To)
		}
	}
	return told, others
}

// pieces measures what an answer is written in.
type pieces struct {
	header  http.Header
	first   chan struct{} // closed with the first piece
	bytes   atomic.Int64
	largest int
}

func (p *pieces) Header() http.Header { return p.header }
func (p *pieces) WriteHeader(int)     {}

func (p *pieces) Write(b []byte) (int, error) {
	if p.bytes.Add(int64(len(b))) == int64(len(b)) {
		close(p.first)
	}
	p.largest = max(p.largest, len(b))
	return len(b), nil
}

func TestEventReadersThatDoNotRead(t *testing.T) {
	t.Run("are cut off, and what they missed is not kept", func(t *testing.T) {
		s := stream(t)
		before := runtime.NumGoroutine()
		s.api.SetEventTimes(time.Millisecond, time.Hour, 300*time.Millisecond)
		s.deaf("")
		s.readers(1)
		for i := 0; s.api.EventReaders() == 1; i++ {
			if i == 2000 {
				t.Fatal("it is still there after 2 million changes")
			}
			s.publish(1000)
			if kept := s.api.EventsKept(); kept > node.FeedKept {
				t.Fatalf("%d changes are kept", kept)
			}
			time.Sleep(time.Millisecond)
		}
		s.readers(0)
		if kept := s.api.EventsKept(); kept != 0 {
			t.Errorf("%d changes are kept for nobody", kept)
		}
		s.server.CloseClientConnections()
		wantGoroutines(t, before)
	})
	t.Run("do not hold up the writer", func(t *testing.T) {
		s := stream(t)
		s.api.SetEventTimes(time.Millisecond, time.Hour, time.Hour)
		for range 100 {
			s.deaf("")
		}
		s.readers(100)
		for range 500 {
			s.publish(1000)
		}
		if _, err := s.client.Enqueue(t.Context(), client.Spec{Queue: "mail"}); err != nil {
			t.Error(err)
		}
	})
	t.Run("cost little memory, each of them", func(t *testing.T) {
		s := stream(t)
		ctx, cancel := context.WithCancel(t.Context())
		w := &pieces{header: http.Header{}, first: make(chan struct{})}
		var serving errgroup.Group
		serving.Go(func() error {
			s.api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", base+"/v1/events", nil))
			return nil
		})
		<-w.first
		for range 4 {
			s.publish(10_000)
		}
		for range 500 {
			if w.bytes.Load() > 40_000*40 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		cancel()
		if err := serving.Wait(); err != nil {
			t.Error(err)
		}
		if w.bytes.Load() < 40_000*40 {
			t.Fatalf("only %d bytes came", w.bytes.Load())
		}
		if w.largest > 64<<10 {
			t.Errorf("a client that does not read may keep %d bytes in memory", w.largest)
		}
	})
	t.Run("are told when they come back too late", func(t *testing.T) {
		s := stream(t)
		s.api.SetEventTimes(time.Second, time.Hour, time.Minute)
		for event, err := range s.client.Events(t.Context(), "") {
			if err == nil && event.Position != nil { // now the stream gathers for a second
				for range node.FeedKept/1000 + 2 {
					s.publish(1000)
				}
				continue
			}
			if !errors.Is(err, &client.Error{Code: client.CodeTooSlow}) {
				t.Errorf("got %+v, %v", event, err)
			}
		}
		s.readers(0)
	})
	t.Run("are let go of when they vanish", func(t *testing.T) {
		s := stream(t)
		before := runtime.NumGoroutine()
		var conns []net.Conn
		for range 50 {
			conns = append(conns, s.deaf("?queue=mail"))
		}
		s.readers(50)
		for _, c := range conns {
			c.Close()
		}
		s.readers(0)
		wantGoroutines(t, before)
	})
	t.Run("are no more than a node can bear", func(t *testing.T) {
		s := stream(t)
		for range 1000 {
			s.deaf("")
		}
		s.readers(1000)
		resp, err := http.Get(s.server.URL + "/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != 503 || !strings.Contains(string(body), "too many readers") {
			t.Errorf("got %d: %s, %v", resp.StatusCode, body, err)
		}
	})
}

func TestEventsOfABurstComeTogether(t *testing.T) {
	s := stream(t)
	s.api.SetEventTimes(time.Second, time.Hour, time.Minute)
	next := listen(t, s.client, "made-up")
	next()
	for range 50 {
		s.publish(30)
	}
	changes, events := 0, 0
	for ; changes < 1500; events++ {
		if event := next(); event.Changes != nil {
			changes += len(event.Changes.Changes)
		}
	}
	if changes != 1500 || events > 5 {
		t.Errorf("%d changes in %d events", changes, events)
	}
	if p := next().Position; p == nil || p.Seq != s.n {
		t.Errorf("after them: got %+v, want position %d", p, s.n)
	}
}

func TestEventsAreKeptAlive(t *testing.T) {
	s := stream(t)
	s.api.SetEventTimes(time.Millisecond, 10*time.Millisecond, time.Minute)
	resp, err := http.Get(s.server.URL + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type: got %q", got)
	}
	var lines []string
	for scan := bufio.NewScanner(resp.Body); len(lines) < 5 && scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	want := "event: position\ndata: {\"epoch\":1,\"seq\":0}\n\n: alive\n"
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestStopEndsWaits stops a node on which all wait that can.
func TestStopEndsWaits(t *testing.T) {
	before := runtime.NumGoroutine()
	cfg := node.Config{ShutdownGrace: time.Minute}
	n := start(t, cfg)
	c, err := client.New(n.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := c.Enqueue(t.Context(), client.Spec{Queue: "idle"})
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	const each = 10
	sent := make(chan struct{}, 3*each)
	var claims, waits, streams atomic.Int64 // that were told
	// One that comes too late for the listener was not there to be told.
	late := func(err error) bool { return errors.As(err, new(*client.UnreachableError)) }
	for range each {
		g.Go(func() error {
			sent <- struct{}{}
			got, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{"empty"}, WaitMS: 60_000})
			switch {
			case late(err):
				return nil
			case err == nil && !got.Stopping:
				return errors.New("a claim was not told that the node stops")
			}
			claims.Add(1)
			return err
		})
		g.Go(func() error {
			sent <- struct{}{}
			job, err := c.Wait(t.Context(), jobs[0].ID, 59*time.Second)
			switch {
			case late(err):
				return nil
			case err == nil && job.Ended():
				return fmt.Errorf("got %+v", job)
			}
			waits.Add(1)
			return err
		})
		g.Go(func() error {
			for _, err := range c.Events(t.Context(), "") {
				switch {
				case err == nil:
					sent <- struct{}{}
					continue
				case !errors.Is(err, client.ErrUnavailable):
					return err
				}
				streams.Add(1)
			}
			return nil
		})
	}
	for range 3 * each {
		<-sent
	}
	time.Sleep(200 * time.Millisecond) // for what was sent to arrive
	began := time.Now()
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if claims.Load() == 0 || waits.Load() == 0 || streams.Load() != each {
		t.Errorf("%d claims, %d waits and %d streams were told, of %d each", claims.Load(), waits.Load(), streams.Load(), each)
	}
	c.Close()
	wantGoroutines(t, before)
}

func TestEventsOverHTTP2(t *testing.T) {
	n := start(t, node.Config{})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	c, err := client.New(n.url, client.Options{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	events, last := 0, error(nil)
	for event, err := range c.Events(t.Context(), "") {
		switch {
		case err != nil:
			last = err
		case event.Position != nil && events == 0:
			if _, err := c.Enqueue(t.Context(), client.Spec{Queue: "mail"}); err != nil {
				t.Fatal(err)
			}
		case event.Changes != nil:
			var g errgroup.Group
			g.Go(n.stop)
			defer func() {
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
			}()
		}
		events++
	}
	if !errors.Is(last, client.ErrUnavailable) || events < 3 {
		t.Errorf("got %d events, then %v", events, last)
	}
}

// endOf is the error with which a stream ends, of which began is told once it
// has begun.
func endOf(ctx context.Context, c *client.Client, began func()) error {
	for _, err := range c.Events(ctx, "") {
		if err != nil {
			return err
		}
		began()
		began = func() {}
	}
	return nil
}

func TestEventsEndWithTheToken(t *testing.T) {
	const admin = "the-admin-token-of-this-test-which-is-long"
	n := start(t, node.Config{AdminToken: admin})
	with := func(token string) *client.Client {
		c, err := client.New(n.url, client.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	operator := with(admin)
	token := func(name string, lives time.Duration) client.Token {
		t.Helper()
		made, err := operator.CreateToken(t.Context(), client.TokenRequest{Name: name, Scopes: []string{client.ScopeView}, ExpiresInMS: lives.Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Run("when it is revoked", func(t *testing.T) {
		made := token("revoked", 0)
		err := endOf(ctx, with(made.Token), func() {
			if err := operator.RevokeToken(ctx, made.ID); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "is revoked") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("when it expires", func(t *testing.T) {
		c := with(token("short", 2*time.Second).Token)
		err := endOf(ctx, c, func() {
			time.Sleep(2 * time.Second)
			if _, err := operator.Enqueue(ctx, client.Spec{Queue: "mail"}); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, client.ErrUnauthorized) || !strings.Contains(err.Error(), "has expired") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("when the first one is made, without", func(t *testing.T) {
		n := start(t, node.Config{})
		c, err := client.New(n.url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		err = endOf(ctx, c, func() {
			if _, err := c.CreateToken(ctx, client.TokenRequest{Name: "first", Scopes: []string{client.ScopeAdmin}}); err != nil {
				t.Error(err)
			}
		})
		if !errors.Is(err, client.ErrUnauthorized) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEventsDoNotHoldUpAHandover(t *testing.T) {
	s := stream(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var g errgroup.Group
	began := make(chan struct{})
	g.Go(func() error { return endOf(ctx, s.client, func() { close(began) }) })
	<-began
	start := time.Now()
	s.api.Leave(ctx, time.Minute)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the node waited for %s", took)
	}
	if err := g.Wait(); !errors.Is(err, client.ErrNotPrimary) {
		t.Errorf("got %v", err)
	}
}
