package queue_test

import (
	"fmt"
	"testing"
	"time"

	"holdfast/queue"
)

func TestDeadGroups(t *testing.T) {
	q, _ := newQueue(t)
	die := func(name, typ, text string) int64 {
		t.Helper()
		enqueue(t, q, queue.Spec{Queue: name, Type: typ, Tags: map[string]string{"of": typ, "a:b": "c", typ: ""}})
		c := claimOne(t, q, name)
		fail(t, q, queue.Fail{Lease: c.Lease, Error: text, Fatal: true})
		return c.ID
	}
	var last int64
	for i := range 3 {
		last = die("mail", "welcome", fmt.Sprintf("smtp 451 for user%d@example.com", i))
	}
	other := die("mail", "digest", "no template")
	die("billing", "invoice", "card declined")
	groups := func(f queue.Filter) queue.DeadGroups {
		t.Helper()
		g, err := q.DeadGroups(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	t.Run("errors of one kind are one group, the largest first", func(t *testing.T) {
		g := groups(queue.Filter{})
		if g.Kinds != 3 || g.Total != 5 || g.Partial || len(g.Groups) != 3 {
			t.Fatalf("got %+v", g)
		}
		first := g.Groups[0]
		if first.Queue != "mail" || first.Jobs != 3 || first.Sample.ID != last || first.Sample.LastError == "" || first.ErrorFP != first.Sample.ErrorFP {
			t.Errorf("got %+v", first)
		}
		if g := groups(queue.Filter{Limit: 1}); len(g.Groups) != 1 || g.Kinds != 3 || g.Total != 5 {
			t.Errorf("a limit: %+v", g)
		}
	})
	t.Run("filters select", func(t *testing.T) {
		fp := groups(queue.Filter{Queue: "mail"}).Groups[0].ErrorFP
		for name, tt := range map[string]struct {
			filter queue.Filter
			total  int64
		}{
			"queue": {queue.Filter{Queue: "mail"}, 4},
			"type":  {queue.Filter{Type: "digest"}, 1},
			"error": {queue.Filter{ErrorFP: fp}, 3},
			"tag":   {queue.Filter{Tag: "a:b"}, 5},

			"a tag's name":              {queue.Filter{Tag: "digest"}, 1},
			"a tag's value":             {queue.Filter{Tag: "of:welcome"}, 3},
			"a value with a colon":      {queue.Filter{Tag: "a:b:c"}, 5},
			"a tag that none has":       {queue.Filter{Tag: "of:"}, 0},
			"an error and a type":       {queue.Filter{ErrorFP: fp, Type: "welcome"}, 3},
			"an error of another type":  {queue.Filter{ErrorFP: fp, Type: "digest"}, 0},
			"an error of another queue": {queue.Filter{ErrorFP: fp, Queue: "billing"}, 0},

			"since":  {queue.Filter{FinishedSince: time.Now().Add(time.Hour)}, 0},
			"before": {queue.Filter{FinishedBefore: time.Now().Add(time.Hour)}, 5},
			"allow":  {queue.Filter{Allow: func(name string) bool { return name == "billing" }}, 1},
		} {
			if g := groups(tt.filter); g.Total != tt.total || g.Partial {
				t.Errorf("%s: got %+v", name, g)
			}
			if step, _, err := q.RetryDead(ctx, tt.filter, true); err != nil || int64(step.Count) != tt.total {
				t.Errorf("%s: a retry would touch %+v, %v", name, step, err)
			}
		}
	})
	t.Run("archived jobs are left out", func(t *testing.T) {
		if _, _, err := q.Archive(ctx, other); err != nil {
			t.Fatal(err)
		}
		if g := groups(queue.Filter{}); g.Kinds != 2 || g.Total != 4 {
			t.Errorf("got %+v", g)
		}
	})
}
