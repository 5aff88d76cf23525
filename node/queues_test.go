package node_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"holdfast/node/client"
	"holdfast/replicate"
)

func TestQueueSettings(t *testing.T) {
	f := overQueue(t)
	f.enqueue(`{"queue":"mail"}`)
	get := func() client.Queue {
		t.Helper()
		return call[client.Queue](f, http.StatusOK, "GET", "/v1/queues/mail", "")
	}
	patch := func(body string) client.Queue {
		t.Helper()
		w := f.send("PATCH", "/v1/queues/mail", body)
		if w.Header().Get("Holdfast-Seq") == "" {
			t.Error("the answer has no Holdfast-Seq")
		}
		if w.Code != http.StatusOK {
			t.Fatalf("patch %s: %d %s", body, w.Code, w.Body)
		}
		return answerOf[client.Queue](t, w)
	}
	text := func(s *client.QueueSettings) string {
		b := "none"
		if s.Backoff != nil {
			b = fmt.Sprint(*s.Backoff)
		}
		return fmt.Sprintf("%d %d %d %s %s %d %v %v", s.MaxAttempts, s.TimeoutMS, s.LeaseMS, b, s.Durability, s.MaxDepth, s.RetentionMS, s.KeepLast)
	}
	const defaults = "5 600000 30000 {exponential 15000 3600000 []} local 0 map[cancelled:604800000 dead:-1 done:604800000] map[]"
	t.Run("of a new queue are the defaults", func(t *testing.T) {
		if got := text(get().Settings); got != defaults {
			t.Errorf("got %s, want %s", got, defaults)
		}
	})
	t.Run("that are the defaults are not in the list", func(t *testing.T) {
		if got := call[client.Queues](f, http.StatusOK, "GET", "/v1/queues", "").Queues; len(got) != 1 || got[0].Settings != nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("are changed, and hold", func(t *testing.T) {
		const want = "9 5000 60000 {list 0 0 [1000 2000]} local 3 map[cancelled:604800000 dead:86400000 done:-1] map[done:7]"
		got := patch(`{"max_attempts":9,"timeout_ms":5000,"lease_ms":60000,"backoff":{"kind":"list","delays_ms":[1000,2000]},"durability":"local",
			"max_depth":3,"retention_ms":{"done":-1,"dead":86400000},"keep_last":{"done":7}}`)
		if text(got.Settings) != want || text(get().Settings) != want {
			t.Errorf("got %s and %s, want %s", text(got.Settings), text(get().Settings), want)
		}
		job := f.claimOne("mail")
		if job.MaxAttempts != 9 || job.TimeoutMS != 5000 {
			t.Errorf("a claim got %+v", job)
		}
	})
	t.Run("that were set are in the list", func(t *testing.T) {
		const want = "9 5000 60000 {list 0 0 [1000 2000]} local 3 map[dead:86400000 done:-1] map[done:7]"
		if got := call[client.Queues](f, http.StatusOK, "GET", "/v1/queues", "").Queues; text(got[0].Settings) != want {
			t.Errorf("got %s, want %s", text(got[0].Settings), want)
		}
	})
	t.Run("change alone", func(t *testing.T) {
		const want = "9 7000 60000 {list 0 0 [1000 2000]} local 3 map[cancelled:604800000 dead:86400000 done:-1] map[dead:2 done:7]"
		if got := text(patch(`{"timeout_ms":7000,"keep_last":{"dead":2}}`).Settings); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("go back to the default by null, by 0, and by name", func(t *testing.T) {
		const want = "5 600000 30000 {exponential 15000 3600000 []} local 0 map[cancelled:604800000 dead:-1 done:-1] map[done:7]"
		if got := text(patch(`{"max_attempts":null,"timeout_ms":0,"lease_ms":null,"backoff":null,"max_depth":null,"retention_ms":{"dead":null},"keep_last":{"dead":0}}`).Settings); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := text(patch(`{"durability":null,"retention_ms":null,"keep_last":null}`).Settings); got != defaults {
			t.Errorf("got %s, want %s", got, defaults)
		}
	})
	t.Run("make a queue when asked to", func(t *testing.T) {
		got := call[client.Queue](f, http.StatusOK, "PATCH", "/v1/queues/new", `{"create":true,"max_depth":1,"keep_last":{"done":1}}`)
		if got.Name != "new" || got.Settings.MaxDepth != 1 || got.Settings.KeepLast["done"] != 1 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a full queue says so", func(t *testing.T) {
		f.enqueue(`{"queue":"new"}`)
		w := f.send("POST", "/v1/jobs", `{"queue":"new"}`)
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		wantError(t, w, http.StatusTooManyRequests, client.CodeQueueFull, "as many waiting jobs")
	})
}

func TestPause(t *testing.T) {
	f := overQueue(t)
	f.enqueue(`{"queue":"mail"}`)
	if q := call[client.Queue](f, http.StatusOK, "POST", "/v1/queues/mail/pause", ""); !q.Paused || q.Settings == nil {
		t.Errorf("got %+v", q)
	}
	t.Run("a paused queue hands out nothing", func(t *testing.T) {
		if got := call[client.Claims](f, http.StatusOK, "POST", "/v1/claims", `{"queues":["mail"]}`); len(got.Jobs) > 0 {
			t.Errorf("got %+v", got)
		}
	})
	if q := call[client.Queue](f, http.StatusOK, "POST", "/v1/queues/mail/resume", "{}"); q.Paused {
		t.Errorf("got %+v", q)
	}
	f.claimOne("mail")
	t.Run("what it did is told by the minute", func(t *testing.T) {
		got := call[client.Throughput](f, http.StatusOK, "GET", "/v1/queues/mail/throughput?since_ms=0", "")
		n := int64(0)
		for _, m := range got.Minutes {
			n += m.Enqueued
		}
		if n != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

// counted is a replica that has everything at once, and counts who waited.
type counted struct{ waited int }

func (*counted) Status() replicate.Status           { return replicate.Status{} }
func (*counted) Valid() bool                        { return true }
func (*counted) CanReplicate() bool                 { return true }
func (c *counted) Replicated(context.Context) error { c.waited++; return nil }

// TestDurabilityOfAQueue asks a queue's setting before the node's.
func TestDurabilityOfAQueue(t *testing.T) {
	f := overQueue(t)
	r := &counted{}
	f.api.Replicate(r)
	waits := func(want int, path, body string) {
		t.Helper()
		before := r.waited
		if w := f.send("POST", path, body); w.Code/100 != 2 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if got := r.waited - before; got != want {
			t.Errorf("%s %s: waited %d times, want %d", path, body, got, want)
		}
	}
	waits(0, "/v1/jobs", `{"queue":"safe"}`)
	call[client.Queue](f, http.StatusOK, "PATCH", "/v1/queues/safe", `{"durability":"replicated"}`)
	waits(1, "/v1/jobs", `{"queue":"safe"}`)
	waits(0, "/v1/jobs", `{"queue":"safe","durability":"local"}`)
	waits(0, "/v1/jobs", `{"queue":"fast"}`)
	waits(1, "/v1/jobs", `[{"queue":"fast"},{"queue":"safe"}]`)
	safe, fast := f.claimOne("safe"), f.claimOne("fast")
	waits(0, "/v1/fails", bodyf(`{"fails":[{"lease":%s}]}`, fast.Lease))
	waits(1, "/v1/acks", bodyf(`{"acks":[{"lease":%s}]}`, safe.Lease))
	safe = f.claimOne("safe")
	waits(1, "/v1/jobs/"+safe.ID+"/ack", bodyf(`{"lease":%s}`, safe.Lease))
	safe = f.claimOne("safe")
	waits(1, "/v1/claims", bodyf(`{"queues":["fast"],"fails":[{"lease":%s}]}`, safe.Lease))
	call[client.Queue](f, http.StatusOK, "PATCH", "/v1/queues/safe", `{"durability":null}`)
	waits(0, "/v1/jobs", `{"queue":"safe"}`)
}
