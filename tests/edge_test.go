//go:build unix

package tests_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

var edgeKillsFlag = flag.Int("edgekills", 20, "how often TestEdgeKill9 kills the edge")

// edgeSync is how often the primaries of these tests upload.
const edgeSync = "sync-interval: 100ms\n"

// newWatched returns a server with a begun root and its primary, not started yet.
func newWatched(t *testing.T, top ...string) (*s3server.Server, *place) {
	t.Helper()
	s := s3server.Start(t)
	p := newPlace(t, "a", bucket(s, "root")+edgeSync)
	p.appendConfig(strings.Join(top, "\n"))
	p.ok("init")
	return s, p
}

func TestEdge(t *testing.T) {
	s, p := newWatched(t)
	primary := p.serve()
	place := newEdgePlace(t, s)
	edge := place.serve()
	load := startEdgeLoad(t, primary)
	t.Run("what was written at the primary is read here by its commit", func(t *testing.T) {
		for range 20 {
			var done client.Enqueued
			at := primary.write(t, client.Spec{Queue: "mine"}, &done)
			var job client.Job
			shown, err := edge.look("/v1/jobs/"+done.ID+"?min_seq="+at, "", &job)
			if err != nil || job.ID != done.ID || shown.at.n < parseCommit(at).n {
				t.Fatalf("after %s: %+v of %+v, %v", at, job, shown, err)
			}
		}
	})
	t.Run("a commit that does not come is told", func(t *testing.T) {
		var err error
		_, err = edge.look("/v1/health?min_seq=99.1", "", nil)
		wantError(t, err, 503, client.CodeStale, "99.1")
		_, err = edge.look("/v1/health?min_seq=x", "", nil)
		wantError(t, err, 400, client.CodeInvalid, "min_seq")
	})
	load.stop()
	t.Run("without news it is fresh, and says so", func(t *testing.T) {
		primary.synced()
		eventually(t, 30*time.Second, "an age of less than 3 s", func() bool {
			var health client.Health
			shown, err := edge.look("/v1/health", "", &health)
			return err == nil && shown.lag < 3*time.Second && time.Since(shown.asOf) < 4*time.Second && health.Replication.LagMS != nil
		})
		if _, err := edge.look("/v1/queues?max_lag_ms=600000", "", nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("it shows what the primary shows", func(t *testing.T) {
		last := primary.replication()
		if _, err := edge.look(fmt.Sprintf("/v1/health?min_seq=%d.%d", last.Epoch, last.Seq), "", nil); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/queues", "/v1/queues/q1", "/v1/queues/q1/throughput", "/v1/jobs?limit=50", "/v1/jobs?state=dead&payload=true", "/v1/dead/groups"} {
			var a, b json.RawMessage
			primary.get(path, &a)
			edge.get(path, &b)
			if string(a) != string(b) || len(a) < 20 {
				t.Errorf("%s: the primary has %.300s, the edge %.300s", path, a, b)
			}
		}
		if a, b := primary.read("/v1/export"), edge.read("/v1/export"); a != b || len(a) < 1000 {
			t.Errorf("the exports differ: %d and %d bytes", len(a), len(b))
		}
	})
	t.Run("what writes is sent to the primary", func(t *testing.T) {
		for _, path := range []string{"/v1/jobs", "/v1/claims", "/v1/acks", "/v1/queues/q1/pause", "/v1/tokens"} {
			resp, err := http.Post(edge.url+path, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body) // what is there is compared
			_ = resp.Body.Close()
			if resp.StatusCode != 503 || resp.Header.Get("Holdfast-Primary") != primary.url || !strings.Contains(string(text), "not_primary") {
				t.Errorf("%s: %d %s, primary %q", path, resp.StatusCode, text, resp.Header.Get("Holdfast-Primary"))
			}
		}
		// So a client that was given the edge reaches the primary.
		if code, _, stderr := edge.cli("enqueue", "mail", "1"); code != 0 {
			t.Errorf("%d, %s", code, stderr)
		}
	})
	t.Run("it waits for the end of a job", func(t *testing.T) {
		id := primary.enqueue(client.Spec{Queue: "slow"}).ID
		eventually(t, 30*time.Second, "the job here", func() bool { _, err := edge.look("/v1/jobs/"+id, "", nil); return err == nil })
		var g errgroup.Group
		var job client.Job
		g.Go(func() error { _, err := edge.look("/v1/jobs/"+id+"?wait_ms=25000", "", &job); return err })
		primary.post("/v1/acks", client.AckRequest{Acks: []client.Ack{{Lease: primary.claimOne("slow").Lease}}}, nil)
		if err := g.Wait(); err != nil || job.State != "done" {
			t.Errorf("got %+v, %v", job, err)
		}
	})
	t.Run("its events are positions", func(t *testing.T) {
		c, err := client.New(edge.url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var want int64
		for event, err := range c.Events(ctx, "") {
			if err != nil || event.Position == nil {
				t.Fatalf("%+v, %v", event, err)
			}
			if want == 0 {
				primary.enqueue(client.Spec{Queue: "mine"})
				want = event.Position.Seq + 1
			} else if event.Position.Seq >= want {
				return
			}
		}
	})
	t.Run("it says how it follows", func(t *testing.T) {
		st := edge.replication()
		self, ok := edge.self()
		if !ok || self.Role != client.RoleEdge || st.Epoch != 1 || st.Seq == 0 || st.LastError != nil || st.DBBytes == 0 || st.Requests.Put+st.Requests.Delete != 0 {
			t.Errorf("got %+v and %+v", st, self)
		}
		if text := edge.read("/metrics"); !strings.Contains(text, "holdfast_replication_lag_seconds") || !strings.Contains(text, `holdfast_queue_jobs{queue="q1"`) {
			t.Errorf("got %s", text)
		}
	})
	t.Run("a status can be asked of it", func(t *testing.T) {
		for _, from := range []string{edge.url, "libsql://" + place.sqlAddr} {
			if code, out, stderr := edge.cli("status", "--from", from); code != 0 || !strings.Contains(out, "q1") || !strings.Contains(out, "lag ") {
				t.Errorf("%s: %d, %s%s", from, code, out, stderr)
			}
		}
	})
	t.Run("it has the dashboard, to read", func(t *testing.T) {
		if page := edge.read("/"); !strings.Contains(page, "q1") || !strings.Contains(page, "this is an edge") {
			t.Errorf("got %.2000s", page)
		}
	})
	t.Run("it puts and deletes nothing", func(t *testing.T) {
		for _, r := range place.front.Requests() {
			if r.Op == s3server.Put || r.Op == s3server.Delete {
				t.Fatalf("%+v", r)
			}
		}
	})
	t.Run("another cannot use its directory", func(t *testing.T) {
		other := *place.place
		other.addr = freeAddr(t)
		cmd := exec.Command(binary(t), "edge", "--data", other.dir, "--config", other.config, "--listen", other.addr)
		cmd.Env = cleanEnv()
		if code, _, stderr := run(t, cmd); code != 4 {
			t.Errorf("%d, %s", code, stderr)
		}
	})
	t.Run("it stops at once, and begins with what it has", func(t *testing.T) {
		if code := edge.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		up := place.front.Down()
		edge = place.serve()
		shown, err := edge.look("/v1/health?max_lag_ms=0", "", nil)
		wantError(t, err, 503, client.CodeStale, "max_lag_ms")
		if _, err := edge.look("/v1/jobs", "", nil); err != nil || shown.at.n == 0 || shown.lag == 0 {
			t.Errorf("got %+v, %v", shown, err)
		}
		up()
	})
}

// write is POST /v1/jobs, and returns the commit.
func (n *node) write(t *testing.T, spec client.Spec, out any) string {
	t.Helper()
	body, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(n.url+"/v1/jobs", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil || resp.StatusCode != 201 {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return resp.Header.Get("Holdfast-Seq")
}

// read is the text of a GET.
func (n *node) read(path string) string {
	n.t.Helper()
	resp, err := http.Get(n.url + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// TestEdgeFailover: an edge goes on with the next primary, by its own way.
func TestEdgeFailover(t *testing.T) {
	s, _, nodes := pair(t)
	place := newEdgePlace(t, s)
	edge := place.serve()
	before := nodes[0].enqueue(client.Spec{Queue: "q", Durability: "replicated"})
	nodes[0].kill()
	eventually(t, restoreTime, "the next primary", nodes[1].serves)
	var after client.Enqueued
	at := nodes[1].write(t, client.Spec{Queue: "q"}, &after)
	eventually(t, restoreTime, "the next epoch at the edge", func() bool {
		shown, err := edge.look("/v1/jobs/"+after.ID+"?min_seq="+at, "", nil)
		return err == nil && shown.at.epoch == 2
	})
	if _, err := edge.look("/v1/jobs/"+before.ID, "", nil); err != nil {
		t.Error(err)
	}
	resp, err := http.Post(edge.url+"/v1/jobs", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get("Holdfast-Primary"); got != nodes[1].url {
		t.Errorf("it sends writers to %q, want %q", got, nodes[1].url)
	}
}

// TestEdgeWithoutEvents: without the events of the primary an edge of a root with
// a lease is as fresh as that, and one without grows old and says so.
func TestEdgeWithoutEvents(t *testing.T) {
	for _, auto := range []bool{true, false} {
		outcome := map[bool]string{true: "the lease shows that the primary lives", false: "without a lease the age grows"}[auto]
		t.Run(outcome, func(t *testing.T) {
			s := s3server.Start(t)
			p := newPlace(t, "a", bucket(s, "root"))
			if auto {
				p = newAutoPlace(t, "a", s)
			}
			p.ok("init")
			primary := p.serve()
			primary.enqueue(client.Spec{Queue: "q"})
			primary.synced()
			edge := newEdgePlace(t, s).serve("--primary-url", "http://127.0.0.1:1")
			begun := time.Now()
			eventually(t, 60*time.Second, outcome, func() bool {
				shown, err := edge.look("/v1/health", "", nil)
				if err != nil || time.Since(begun) < 4*failoverTTL {
					return false
				}
				if auto {
					return shown.lag < 3*failoverTTL
				}
				return shown.lag >= 3*failoverTTL
			})
		})
	}
}

// TestEdgeRetention: an edge that was off until the files it needs were gone
// begins anew, and answers from what it has meanwhile.
func TestEdgeRetention(t *testing.T) {
	s, p := newWatched(t, "levels: [{interval: 200ms}, {interval: 600ms}]", "l0-retention: 1s", "snapshot: {interval: 1s, retention: 2s}")
	primary := p.serve()
	place := newEdgePlace(t, s)
	edge := place.serve()
	primary.enqueue(client.Spec{Queue: "q"})
	eventually(t, restoreTime, "a copy", func() bool { return edge.replication().Seq > 0 })
	if code := edge.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	was := s.Count(s3server.Delete, "")
	eventually(t, 60*time.Second, "the retention", func() bool {
		primary.enqueue(client.Spec{Queue: "q"})
		return s.Count(s3server.Delete, "") > was+20
	})
	var last client.Enqueued
	at := primary.write(t, client.Spec{Queue: "q"}, &last)
	edge = place.serve()
	eventually(t, restoreTime, "the last commit at the edge", func() bool {
		_, err := edge.look("/v1/jobs/"+last.ID+"?min_seq="+at, "", nil)
		return err == nil
	})
	if _, _, bad, err := lookWhole(t.Context(), openSQL(t, place.sqlAddr)); bad != "" || err != nil {
		t.Errorf("%s, %v", bad, err)
	}
}

// TestEdgeMissingFile: a file of the replica is deleted that an edge needs.
func TestEdgeMissingFile(t *testing.T) {
	s, p := newWatched(t, "levels: [{interval: 10m}]")
	primary := p.serve()
	place := newEdgePlace(t, s)
	edge := place.serve()
	primary.enqueue(client.Spec{Queue: "q"})
	primary.synced()
	eventually(t, restoreTime, "the first job", func() bool { return edge.replication().Seq == primary.replication().Seq })
	edge.kill()
	for range 5 {
		primary.enqueue(client.Spec{Queue: "q"})
		primary.synced()
	}
	files, err := filepath.Glob(filepath.Join(s.Dir, "root", "e00000001", "0000", "*.ltx"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	slices.Sort(files)
	for _, file := range files[len(files)-3 : len(files)-1] {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	edge = place.serve()
	begun := time.Now()
	eventually(t, 60*time.Second, "the edge notices", func() bool {
		return strings.Contains(strings.Join(edge.ready().Warnings, " "), "missing from the replica")
	})
	t.Logf("noticed after %s", time.Since(begun))
	if _, err := edge.look("/v1/queues", "", nil); err != nil {
		t.Errorf("it does not answer from what it has: %v", err)
	}
}

// midApply are the points at which a follower can be killed while it applies a
// file to a copy.
var midApply = []string{"mark", "first-page", "second-page", "third-page", "later-page", "truncate", "state"}

// TestEdgeKill9 kills an edge over and over in the middle of a file, and asks it
// all the time whether what it shows is one state of the database.
func TestEdgeKill9(t *testing.T) {
	s, p := newWatched(t, "levels: [{interval: 2s}, {interval: 10s}]", "l0-retention: 30s")
	primary := p.serve()
	// More than the connections of readers keep in memory.
	for range 4 {
		specs := make([]client.Spec, 1000)
		for i := range specs {
			specs[i] = client.Spec{Queue: "later", DelayMS: 3_600_000, Payload: fmt.Appendf(nil, "%q", strings.Repeat("x", 900))}
		}
		primary.post("/v1/jobs", specs, nil)
	}
	startEdgeLoad(t, primary)
	place := newEdgePlace(t, s)
	place.faulty()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var answers, moved atomic.Int64
	var g errgroup.Group
	for range 3 {
		db := openSQL(t, place.sqlAddr)
		g.Go(func() error {
			var last commit
			for ctx.Err() == nil {
				at, _, bad, err := lookWhole(ctx, db)
				switch {
				case bad != "":
					cancel()
					return errors.New(bad)
				case err != nil && strings.Contains(err.Error(), "malformed"):
					cancel()
					return err
				case err != nil:
					sleepFor(ctx, 10*time.Millisecond) // it is down
					continue
				}
				answers.Add(1)
				if at != last {
					moved.Add(1)
				}
				last = at
			}
			return nil
		})
	}
	for i := range *edgeKillsFlag {
		if ctx.Err() != nil {
			break
		}
		up := func() {}
		if i > 0 { // what the kill left is looked at before there is more
			up = place.front.Down()
		}
		edge := place.serve()
		want := answers.Load() + 2
		eventually(t, 60*time.Second, "answers", func() bool { return answers.Load() > want || ctx.Err() != nil })
		up()
		sleepFor(ctx, time.Duration(rand.IntN(500))*time.Millisecond)
		if i%4 == 3 {
			edge.kill() // wherever it is
		} else {
			place.arm(midApply[rand.IntN(len(midApply))], "kill")
			edge.wait(60 * time.Second)
		}
		if i%5 == 4 {
			t.Logf("%d kills, %d answers of %d states", i+1, answers.Load(), moved.Load())
		}
	}
	edge := place.serve()
	var done client.Enqueued
	at := primary.write(t, client.Spec{Queue: "q0"}, &done)
	eventually(t, restoreTime, "the edge to go on", func() bool { _, err := edge.look("/v1/jobs/"+done.ID+"?min_seq="+at, "", nil); return err == nil })
	cancel()
	if err := g.Wait(); err != nil {
		t.Errorf("a bad answer: %v", err)
	}
	if moved.Load() < int64(*edgeKillsFlag)/5 {
		t.Errorf("%d states in %d answers: it hardly followed", moved.Load(), answers.Load())
	}
	fmt.Printf("EDGEKILL9 {\"kills\":%d,\"answers\":%d,\"states\":%d}\n", *edgeKillsFlag, answers.Load(), moved.Load())
}

// TestEdgeTokens: the tokens of the primary are in force at the edge, which asks
// nobody.
func TestEdgeTokens(t *testing.T) {
	secret := strings.Repeat("a9", 20)
	s, p := newWatched(t)
	p.env = append(p.env, "HOLDFAST_ADMIN_TOKEN="+secret)
	primary := p.serve()
	c, err := client.New(primary.url, client.Options{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	token := func(name string, queues []string, scopes ...string) client.Token {
		made, err := c.CreateToken(t.Context(), client.TokenRequest{Name: name, Scopes: scopes, Queues: queues})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	follow, view, mail := token("edge", nil, "view"), token("view", nil, "view"), token("mail", []string{"mail"}, "view", "payload")
	jobs, err := c.Enqueue(t.Context(), client.Spec{Queue: "mail", Payload: []byte(`{"secret":1}`)}, client.Spec{Queue: "other", Payload: []byte(`{"secret":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	place := newEdgePlace(t, s)
	place.env = append(place.env, "HOLDFAST_TOKEN="+follow.Token)
	edge := place.serve()
	eventually(t, restoreTime, "both jobs", func() bool { _, err := edge.look("/v1/jobs/"+jobs[1].ID, view.Token, nil); return err == nil })
	t.Run("without a token there is nothing", func(t *testing.T) {
		_, err := edge.look("/v1/health", "", nil)
		wantError(t, err, 401, client.CodeUnauthorized)
		// Before the edge had the tokens those above were wrong ones, perhaps too many.
		if _, err = edge.look("/v1/health", "hf_wrong", nil); !errors.Is(err, &client.Error{Code: client.CodeRateLimited}) {
			wantError(t, err, 401, client.CodeUnauthorized)
		}
	})
	t.Run("view sees no payload", func(t *testing.T) {
		var job client.Job
		if _, err := edge.look("/v1/jobs/"+jobs[0].ID, view.Token, &job); err != nil || !job.PayloadHidden || len(job.Payload) > 0 {
			t.Errorf("got %+v, %v", job, err)
		}
	})
	t.Run("a token for a queue sees that alone", func(t *testing.T) {
		var list client.Jobs
		if _, err := edge.look("/v1/jobs?payload=true", mail.Token, &list); err != nil || len(list.Jobs) != 1 || list.Jobs[0].Queue != "mail" || len(list.Jobs[0].Payload) == 0 {
			t.Errorf("got %+v, %v", list, err)
		}
		_, err := edge.look("/v1/jobs/"+jobs[1].ID, mail.Token, nil)
		wantError(t, err, 403, client.CodeForbidden)
		// Also of a job that comes while the request waits.
		later := edge.later(t, c, "other")
		_, err = edge.look(later, mail.Token, nil)
		wantError(t, err, 403, client.CodeForbidden)
	})
	t.Run("it reads the primary's events with its own", func(t *testing.T) {
		eventually(t, 30*time.Second, "a fresh edge", func() bool {
			shown, err := edge.look("/v1/health", view.Token, nil)
			return err == nil && shown.lag < 3*time.Second && time.Since(shown.asOf) < 4*time.Second
		})
	})
	t.Run("a revoked token ends", func(t *testing.T) {
		if err := c.RevokeToken(t.Context(), view.ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "the revocation", func() bool {
			_, err := edge.look("/v1/health", view.Token, nil)
			// Before the edge had the tokens they were wrong ones, perhaps too many.
			return errors.Is(err, client.ErrUnauthorized) || errors.Is(err, &client.Error{Code: client.CodeRateLimited})
		})
	})
}

// later adds a job and returns the path by which an edge is asked for it before
// it can have it.
func (n *node) later(t *testing.T, c *client.Client, queue string) string {
	t.Helper()
	jobs, err := c.Enqueue(t.Context(), client.Spec{Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	health, err := c.Health(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/v1/jobs/%s?min_seq=%d.%d", jobs[0].ID, health.Replication.Epoch, health.Replication.Seq)
}
