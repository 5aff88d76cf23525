package tests_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
)

const chaosQueue = "chaos"

// chaosLoad is producers and workers that find the primary among two nodes and
// write down what they were told.
type chaosLoad struct {
	urls    []string
	history *chaosHistory
	naive   bool // nothing waits for replication
	hc      *http.Client
	taken   []string // keys that the Go client was told were taken, its own list

	produced chan struct{} // closed when the producers are done
	drained  atomic.Bool
}

func newChaosLoad(urls []string, naive bool) *chaosLoad {
	return &chaosLoad{urls: urls, naive: naive, history: newChaosHistory(), produced: make(chan struct{}), hc: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// chaosPatience is how long each client waits for an answer. Short ones are at
// the next primary when a node that slept wakes; long ones still wait for it.
func chaosPatience(i int) time.Duration {
	return []time.Duration{2 * time.Second, 15 * time.Second}[i%2]
}

// run loads the nodes. Producers stop with ctx, workers when drained is set,
// which must not be before produced is closed.
func (l *chaosLoad) run(ctx context.Context) error {
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error { return l.work(ctx, i) })
	}
	err := errors.Join(l.producers(ctx), g.Wait())
	l.hc.CloseIdleConnections()
	return err
}

func (l *chaosLoad) producers(ctx context.Context) error {
	defer close(l.produced)
	var g errgroup.Group
	for i := range 12 {
		g.Go(func() error { return l.produce(ctx, fmt.Sprintf("replicated%d", i), "replicated", chaosPatience(i)) })
	}
	for i := range 2 {
		g.Go(func() error { return l.produce(ctx, fmt.Sprintf("local%d", i), "local", chaosPatience(i)) })
	}
	g.Go(func() error { return l.client(ctx) })
	return g.Wait()
}

// aim is the node that one client takes for the primary.
type aim struct {
	l  *chaosLoad
	at string
}

// errNotNow is an answer that asks for another try.
var errNotNow = errors.New("not now")

// send sends a request once and decodes its answer. After errNotNow, the next
// goes to another node, or to the one that was named.
func (a *aim) send(path string, body, out any, patience time.Duration) (at, replicated commit, sent time.Time, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return at, replicated, sent, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.at+path, bytes.NewReader(text))
	if err != nil {
		return at, replicated, sent, err
	}
	req.Header.Set("Content-Type", "application/json")
	sent = time.Now()
	resp, err := a.l.hc.Do(req)
	if err != nil {
		a.next("")
		return at, replicated, sent, fmt.Errorf("%w: %w", errNotNow, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		a.next("")
		return at, replicated, sent, fmt.Errorf("%w: %w", errNotNow, err)
	case resp.StatusCode == http.StatusServiceUnavailable:
		a.next(resp.Header.Get("Holdfast-Primary"))
		return at, replicated, sent, fmt.Errorf("%w: %s", errNotNow, answer)
	case resp.StatusCode/100 != 2:
		return at, replicated, sent, fmt.Errorf("POST %s: %s: %s", path, resp.Status, answer)
	}
	at, replicated = parseCommit(resp.Header.Get("Holdfast-Seq")), parseCommit(resp.Header.Get("Holdfast-Replicated-Seq"))
	return at, replicated, sent, json.Unmarshal(answer, out)
}

func (a *aim) next(named string) {
	switch i := slices.Index(a.l.urls, a.at); {
	case slices.Contains(a.l.urls, named):
		a.at = named
	default:
		a.at = a.l.urls[(i+1)%len(a.l.urls)]
	}
}

func chaosSpec(key, durability string) client.Spec {
	return client.Spec{
		Queue: chaosQueue, IdempotencyKey: key, Payload: []byte(`{"key":"` + key + `"}`), Durability: durability,
		MaxAttempts: 1000, Backoff: &client.Backoff{Kind: "fixed", BaseMS: 50},
	}
}

// produce enqueues one or a few jobs at a time, each until it is answered.
func (l *chaosLoad) produce(ctx context.Context, name, durability string, patience time.Duration) error {
	asked := durability
	if l.naive {
		asked = "local"
	}
	a := &aim{l, l.urls[0]}
	for n := 0; ctx.Err() == nil; n++ {
		specs := make([]client.Spec, 1+rand.IntN(2)*rand.IntN(4))
		for i := range specs {
			specs[i] = chaosSpec(fmt.Sprintf("%s-%d-%d", name, n, i), asked)
		}
		var batch client.EnqueuedBatch
		at, replicated, sent, err := a.send("/v1/jobs", specs, &batch, patience)
		for errors.Is(err, errNotNow) && ctx.Err() == nil {
			time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
			at, replicated, sent, err = a.send("/v1/jobs", specs, &batch, patience)
		}
		if errors.Is(err, errNotNow) {
			return nil // what was not answered is no promise
		}
		if err != nil {
			return err
		}
		for i, job := range batch.Jobs {
			l.history.saw(replicated, promise{
				sent: sent, got: time.Now(), node: a.at, what: "enqueue", id: job.ID, key: specs[i].IdempotencyKey, at: at, durable: asked == "replicated",
			})
		}
		if durability == "local" || l.naive {
			time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond)
		}
	}
	return nil
}

// client enqueues by the Go client, with local answers: while it lives, it
// sends again what a takeover forgot.
func (l *chaosLoad) client(ctx context.Context) error {
	c, err := client.New(l.urls[0], client.Options{Others: l.urls[1:], Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer c.Close()
	for n := 0; ctx.Err() == nil; n++ {
		key := "client-" + strconv.Itoa(n)
		if _, err := c.Enqueue(ctx, chaosSpec(key, "local")); err == nil {
			l.taken = append(l.taken, key)
		}
		time.Sleep(time.Duration(10+rand.IntN(20)) * time.Millisecond)
	}
	// An answer of any kind lets it send again. All is healed by now.
	for answers := 0; answers < 3; time.Sleep(100 * time.Millisecond) {
		if _, err := c.Queues(context.Background()); err == nil {
			answers++
		}
	}
	return nil
}

// work claims jobs and acks them, most of them with an answer after
// replication, some after their lease, some never.
func (l *chaosLoad) work(ctx context.Context, worker int) error {
	a := &aim{l, l.urls[0]}
	req := client.ClaimRequest{Queues: []string{chaosQueue}, Worker: fmt.Sprintf("chaos:%d", worker), LeaseMS: 2500, WaitMS: 200}
	patience := chaosPatience(worker)
	for !l.drained.Load() {
		req.Max = 1 + rand.IntN(16)
		var claims client.Claims
		at, replicated, sent, err := a.send("/v1/claims", req, &claims, patience)
		if errors.Is(err, errNotNow) {
			time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		for _, job := range claims.Jobs {
			l.history.saw(replicated, promise{sent: sent, got: time.Now(), node: a.at, what: "claim", id: job.ID, run: job.Run, lease: leaseEpoch(job.Lease), at: at})
		}
		if len(claims.Jobs) == 0 {
			continue
		}
		if ctx.Err() == nil {
			switch rand.IntN(40) {
			case 0: // it died
				continue
			case 1: // it was slow
				time.Sleep(3 * time.Second)
			}
		}
		if err := l.ack(a, claims.Jobs, patience); err != nil {
			return err
		}
	}
	return nil
}

// ack acks jobs until it is answered.
func (l *chaosLoad) ack(a *aim, jobs []client.Claimed, patience time.Duration) error {
	req := client.AckRequest{Durability: "replicated"}
	if l.naive || rand.IntN(5) == 0 {
		req.Durability = "local"
	}
	for _, job := range jobs {
		req.Acks = append(req.Acks, client.Ack{Lease: job.Lease})
	}
	for range 50 {
		var out client.Results
		at, replicated, sent, err := a.send("/v1/acks", req, &out, patience)
		if errors.Is(err, errNotNow) {
			time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		for i, result := range out.Results {
			if result.OK {
				l.history.saw(replicated, promise{
					sent: sent, got: time.Now(), node: a.at, what: "ack", id: jobs[i].ID, run: jobs[i].Run, lease: leaseEpoch(jobs[i].Lease),
					at: at, durable: req.Durability == "replicated",
				})
			}
		}
		return nil
	}
	return nil
}

// leaseEpoch is the epoch that a lease token begins with.
func leaseEpoch(lease string) int64 {
	text, _, _ := strings.Cut(lease, ".")
	epoch, _ := strconv.ParseInt(text, 10, 64) // 0 of what is no token
	return epoch
}
