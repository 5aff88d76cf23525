//go:build unix

package tests_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

var (
	chaosFlag = flag.Duration("chaos", 12*time.Second, "how long TestChaos breaks things")
	seedFlag  = flag.Uint64("seed", 0, "of TestChaos's faults; 0: drawn by lot")
	naiveFlag = flag.Bool("naive", false, "TestChaos takes answers that did not wait for replication for replicated ones: it must find losses")
)

// TestChaos runs two nodes with automatic failover on one root, breaks them and
// their ways to object storage, and holds what clients were told against what is
// there in the end. `-args -chaos 10m -seed 1` says how long and which faults.
func TestChaos(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	fmt.Printf("TestChaos: -seed %d\n", seed)
	c := startChaos(t)
	loading, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return c.load.run(loading) })
	c.storm(rand.New(rand.NewPCG(seed, 0)), *chaosFlag)
	c.heal()
	stop()
	c.drain()
	if err := g.Wait(); err != nil {
		t.Errorf("a request was refused: %v", err)
	}
	c.judge()
}

// startChaos starts both nodes on a new root.
func startChaos(t *testing.T) *chaos {
	t.Helper()
	s := s3server.Start(t)
	dir, err := os.MkdirTemp("", "holdfast-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("all that was left, the logs of the nodes too: %s", dir)
			return
		}
		_ = os.RemoveAll(dir) // a leftover in the temporary directory at worst
	})
	c := &chaos{t: t, s3: s, dir: dir, events: &chaosEvents{}}
	c.lock = &lockWatch{path: filepath.Join(s.Dir, "root", "lock.json"), events: c.events}
	var urls []string
	for i, name := range []string{"a", "b"} {
		c.members[i] = newMember(t, s, dir, name)
		urls = append(urls, c.members[i].url)
	}
	c.members[0].place.ok("init")
	c.load = newChaosLoad(urls, *naiveFlag)
	for _, m := range c.members {
		c.supervisors.Go(func() error { return m.supervise(t, c.events) })
	}
	watch, end := context.WithCancel(context.Background())
	c.supervisors.Go(func() error { c.lock.run(watch); return nil })
	t.Cleanup(func() {
		end()
		for _, m := range c.members {
			m.retire(syscall.SIGKILL)
		}
		if err := c.supervisors.Wait(); err != nil {
			t.Error(err)
		}
	})
	if c.primary(restoreTime) == nil {
		t.Fatalf("%v\n%s", errNoPrimary, c.logs())
	}
	return c
}

// storm does harm for a while.
func (c *chaos) storm(rnd *rand.Rand, length time.Duration) {
	c.t.Helper()
	if *naiveFlag { // which must lose something, whatever the seed
		time.Sleep(3 * time.Second) // under load
		c.kill(c.primary(time.Minute), syscall.SIGKILL, time.Second, true)
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		p := c.primary(60 * time.Second)
		if p == nil {
			c.giveUp()
		}
		time.Sleep(time.Duration(300+rnd.IntN(1500)) * time.Millisecond)
		if rnd.IntN(4) == 0 {
			c.step(rnd, c.members[rnd.IntN(2)])
		}
		c.harm(rnd, p)
	}
}

// giveUp ends a test whose nodes do not come back.
func (c *chaos) giveUp() {
	c.t.Helper()
	c.t.Fatalf("%v\n%s\n%s", errNoPrimary, strings.Join(c.events.lines[max(0, len(c.events.lines)-40):], "\n"), c.logs())
}

// logs are the ends of what the nodes wrote.
func (c *chaos) logs() string {
	var b strings.Builder
	for _, m := range c.members {
		text, err := os.ReadFile(m.log.Name())
		fmt.Fprintf(&b, "%s wrote (%v):\n%s\n", m.name, err, text[max(0, len(text)-6000):])
	}
	return b.String()
}

// harm breaks one thing, sometimes two, and repairs what does not repair itself.
func (c *chaos) harm(rnd *rand.Rand, p *member) {
	victim := p
	if rnd.IntN(5) == 0 {
		victim = c.other(p)
	}
	seconds := func(least, most float64) time.Duration {
		return time.Duration((least + rnd.Float64()*(most-least)) * float64(time.Second))
	}
	switch rnd.IntN(14) {
	case 0, 1: // comes back within its lease
		c.kill(victim, syscall.SIGKILL, seconds(0, 1), false)
	case 2, 3: // comes back when the other has taken over
		c.kill(victim, syscall.SIGKILL, seconds(5, 8), false)
	case 4:
		c.kill(victim, syscall.SIGKILL, seconds(0, 8), true)
	case 5, 6:
		c.kill(victim, syscall.SIGTERM, seconds(0, 3), false)
	case 7: // beyond the lease
		c.freeze(victim, seconds(4.2, 9), rnd.IntN(2) == 0)
	case 8: // around it
		c.freeze(victim, seconds(0.5, 4), rnd.IntN(2) == 0)
	case 9: // cut off
		fault := s3server.Fault{Do: []s3server.Action{s3server.CutBefore, s3server.CutAfter, s3server.BlackHole}[rnd.IntN(3)]}
		c.cut(victim, fault, seconds(1, 8))
	case 10: // slow, or refused now and then
		fault := s3server.Fault{Do: s3server.Wait, Delay: seconds(0.1, 1.5)}
		if rnd.IntN(2) == 0 {
			fault = s3server.Fault{Do: s3server.CutAfter, Times: 1 + rnd.IntN(6), Op: s3server.Put}
		}
		c.cut(victim, fault, seconds(1, 6))
	case 11: // both at once: cut off and killed, and the other killed too at times
		up := victim.proxy.Inject(s3server.Fault{Do: s3server.CutBefore})
		c.events.add("%s is cut off", victim.name)
		time.Sleep(seconds(0.1, 5))
		victim.signal(syscall.SIGKILL, seconds(0, 6), rnd.IntN(3) == 0)
		c.events.add("%s is killed", victim.name)
		if rnd.IntN(2) == 0 {
			c.other(victim).signal(syscall.SIGKILL, seconds(0, 3), false)
			c.events.add("%s is killed", c.other(victim).name)
		}
		time.Sleep(seconds(0, 3))
		up()
	default:
		c.handOver(p)
	}
}

// handOver makes the primary give way, whether there is a standby or not.
func (c *chaos) handOver(p *member) {
	var out client.Handover
	c.events.add("%s is to hand over", p.name)
	err := call(&http.Client{Timeout: 30 * time.Second}, http.MethodPost, p.url+"/v1/handover", nil, &out)
	c.events.add("%s answers the handover: %+v, %v", p.name, out, err)
}

// step sets a node's wall clock, and the standby's or the primary's alike.
func (c *chaos) step(rnd *rand.Rand, m *member) {
	const day = 24 * time.Hour
	to := []time.Duration{0, time.Hour, -time.Hour, day, -day, 365 * day, -365 * day}[rnd.IntN(7)]
	m.wall = to
	m.place.setClocks(m.wall, -m.slept)
	c.events.add("the clock of %s is set to %s from the time", m.name, to)
}

// kill ends a node, and notes how long there is no primary when it was one and
// another stood by.
func (c *chaos) kill(m *member, sig syscall.Signal, delay time.Duration, wipe bool) {
	counts := m.ready() && c.other(m).standsBy()
	c.events.add("%s gets %s, starts again after %s, disk lost: %v", m.name, sig, delay, wipe)
	m.signal(sig, delay, wipe)
	if counts {
		c.takeover(m)
	}
}

// takeover waits for the next primary.
func (c *chaos) takeover(m *member) {
	began := time.Now()
	for m.ready() && time.Since(began) < 15*time.Second { // a stop takes its time
		time.Sleep(10 * time.Millisecond)
	}
	died := time.Now()
	next := c.primary(60 * time.Second)
	if next == nil {
		c.giveUp()
	}
	c.slowest = max(c.slowest, time.Since(died))
	c.events.add("%s serves %s after the end of %s", next.name, time.Since(died).Round(time.Millisecond), m.name)
}

// freeze stops a node and lets it go on later, when another may be the primary.
// With the machine its monotonic clock slept too.
func (c *chaos) freeze(m *member, length time.Duration, machine bool) {
	counts := m.ready() && c.other(m).standsBy()
	c.events.add("%s sleeps for %s, its machine too: %v", m.name, length, machine)
	m.signal(syscall.SIGSTOP, 0, false)
	began := time.Now()
	for counts && time.Since(began) < length {
		if c.other(m).ready() {
			c.slowest = max(c.slowest, time.Since(began))
			c.events.add("%s serves %s after %s fell asleep", c.other(m).name, time.Since(began).Round(time.Millisecond), m.name)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(length - time.Since(began))
	if machine {
		m.slept += length
		m.place.setClocks(m.wall, -m.slept)
	}
	m.signal(syscall.SIGCONT, 0, false)
	c.events.add("%s goes on", m.name)
}

// cut breaks a node's way to object storage for a while.
func (c *chaos) cut(m *member, f s3server.Fault, length time.Duration) {
	c.events.add("%s has the fault %+v for %s", m.name, f, length)
	repair := m.proxy.Inject(f)
	time.Sleep(length)
	repair()
	c.events.add("%s has no fault any more", m.name)
}

// heal lets everything run again and waits until a node serves.
func (c *chaos) heal() {
	c.t.Helper()
	for _, m := range c.members {
		m.wall = 0
		m.place.setClocks(m.wall, -m.slept)
		m.signal(syscall.SIGCONT, 0, false)
	}
	c.events.add("all is healed")
	time.Sleep(2 * chaosTTL) // those that slept know by then who is the primary
	if c.primary(60*time.Second) == nil {
		c.giveUp()
	}
}

// drain waits until no job is left to do, and lets the workers go.
func (c *chaos) drain() {
	c.t.Helper()
	defer c.load.drained.Store(true)
	select {
	case <-c.load.produced:
	case <-time.After(time.Minute):
		c.giveUp()
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		p := c.primary(60 * time.Second)
		if p == nil {
			c.giveUp()
		}
		var queues client.Queues
		if call(chaosProbe, "GET", p.url+"/v1/queues", nil, &queues) != nil {
			continue
		}
		i := slices.IndexFunc(queues.Queues, func(q client.Queue) bool { return q.Name == chaosQueue })
		if i >= 0 && queues.Queues[i].Counts.Queued+queues.Queues[i].Counts.Running+queues.Queues[i].Counts.Scheduled == 0 {
			return
		}
	}
	c.t.Error("the jobs were not done within 2 minutes")
}

// judge stops both nodes and compares what is there, in the bucket and on the
// disk, with what was promised.
func (c *chaos) judge() {
	t := c.t
	t.Helper()
	p := c.primary(60 * time.Second)
	if p == nil {
		c.giveUp()
	}
	c.other(p).retire(syscall.SIGKILL)
	p.retire(syscall.SIGTERM)
	eventually(t, 30*time.Second, "the end of the primary", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.process == nil
	})
	local, restored := filepath.Join(p.dir, "holdfast.db"), filepath.Join(c.dir, "restored.db")
	p.place.ok("restore", "--full", "-o", restored)
	checkDatabase(t, local)
	checkDatabase(t, restored)
	jobs := chaosJobs(t, restored)
	if !reflect.DeepEqual(chaosJobs(t, local), jobs) {
		t.Error("after a clean stop the replica differs from the disk")
	}

	check := c.load.history.check(jobs, *naiveFlag)
	check.verdict.Failovers, check.verdict.TakeoverMaxMS = c.lock.failovers(), c.slowest.Milliseconds()
	c.resent(check)
	if *naiveFlag {
		if check.verdict.Lost == 0 {
			t.Error("no answer waited for replication, and nothing was lost: the checker sees nothing")
		}
	} else {
		check.report(t)
		if t.Failed() {
			t.Logf("what was done:\n%s", strings.Join(c.events.lines, "\n"))
		}
	}
	for _, m := range c.members {
		if len(m.codes) > 0 {
			t.Logf("%s ended by itself with %v", m.name, m.codes)
		}
	}
	t.Logf("%d jobs; %d local answers were beyond the replica at a takeover; the Go client was told of %d jobs", len(jobs), check.beyond, len(c.load.taken))
	line, err := json.Marshal(check.verdict)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("CHAOS %s\n", line)
}

// chaosJobs reads the jobs of the load from a database file.
func chaosJobs(t *testing.T, path string) map[string]client.Job {
	t.Helper()
	db := openDatabase(t, path)
	rows, err := db.Query("select id, state, run, payload from job where queue = ?", chaosQueue)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	jobs := map[string]client.Job{}
	for rows.Next() {
		var job client.Job
		if err := rows.Scan(&job.ID, &job.State, &job.Run, (*[]byte)(&job.Payload)); err != nil {
			t.Fatal(err)
		}
		jobs[job.ID] = job
	}
	if err := errors.Join(rows.Err(), rows.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return jobs
}

// resent looks for the jobs of the Go client, which sends again what a takeover
// forgot.
func (c *chaos) resent(check *chaosCheck) {
	there := map[string]bool{}
	for _, job := range check.jobs {
		there[keyOf(job)] = true
	}
	for _, key := range c.load.taken {
		if !there[key] {
			check.problems = append(check.problems, fmt.Sprintf("the Go client was told that %q is taken, and did not send it again", key))
		}
	}
}
