package tests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// killWithin is how soon after an answer the node is killed. What an answer
// promised must be on the disk by then, not on its way there.
const killWithin = 10 * time.Millisecond

// TestKill9 kills a node under load, again and again, each time within 10 ms
// after an acknowledged answer, and checks what clients were told against what
// is there in the end. `-args -kills N` says how often.
//
// A killed process loses what it kept to itself, such as an answer that was
// sent before its commit; it does not lose what the kernel has. That the
// commit was fsynced before the answer is for other tests to show.
func TestKill9(t *testing.T) {
	n := serve(t, t.TempDir())
	addr := strings.TrimPrefix(n.url, "http://")
	s := newStorm(n.url)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var g errgroup.Group
	g.Go(func() error { return s.run(ctx, 4, 4) })

	var latest, slowest time.Duration
	for range *killsFlag {
		s.arm(20 + rand.Int64N(300))
		var answer time.Time
		select {
		case answer = <-s.fired:
		case <-time.After(30 * time.Second):
			t.Fatal("no answers: the load stands still")
		}
		// Not the whole time: a busy machine sleeps longer than it is told.
		time.Sleep(time.Duration(rand.Int64N(int64(killWithin / 2))))
		latest = max(latest, time.Since(answer))
		n.kill()
		n = launchNode(t, n.dir, addr)
		slowest = max(slowest, n.waitReady(10*time.Second))
	}
	stop()
	if err := g.Wait(); err != nil {
		t.Errorf("a request was refused: %v", err)
	}
	got, problems := s.history.check(n.jobs(stormQueue))
	for i, problem := range problems {
		if i == 20 {
			t.Errorf("and %d more", len(problems)-i)
			break
		}
		t.Error(problem)
	}
	if code := n.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	checkDatabase(t, n.databasePath())
	t.Logf("%d kills, at most %s after an answer, ready again within %s",
		*killsFlag, latest.Round(time.Millisecond), slowest.Round(time.Millisecond))
	line, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("KILL9 %s\n", line)
}
