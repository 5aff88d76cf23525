package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"holdfast/node/client"
)

// claimOne claims a job that must be there.
func (f *fixture) claimOne(queue string) client.Claimed {
	f.t.Helper()
	claims := call[client.Claims](f, http.StatusOK, "POST", "/v1/claims", fmt.Sprintf(`{"queues":[%q],"worker":"w1"}`, queue))
	if len(claims.Jobs) != 1 {
		f.t.Fatalf("claim: got %d jobs, want 1", len(claims.Jobs))
	}
	return claims.Jobs[0]
}

func (f *fixture) enqueue(spec string) client.Enqueued {
	f.t.Helper()
	return call[client.Enqueued](f, http.StatusCreated, "POST", "/v1/jobs", spec)
}

// bodyf formats a body; arguments are put in as JSON.
func bodyf(format string, args ...any) string {
	for i, arg := range args {
		text, err := json.Marshal(arg)
		if err != nil {
			panic(err) // a test's own argument
		}
		args[i] = string(text)
	}
	return fmt.Sprintf(format, args...)
}

func TestEnqueue(t *testing.T) {
	f := overQueue(t)
	t.Run("a job is created as it was asked for", func(t *testing.T) {
		enqueued := f.enqueue(`{"queue":"mail","type":"welcome","payload":{"to":"<a&b>", "n":1.50},"priority":7,
			"delay_ms":60000,"max_attempts":3,"timeout_ms":5000,"backoff":{"kind":"list","delays_ms":[1000,2000]},"tags":{"tenant":"acme"}}`)
		if enqueued.State != "scheduled" || enqueued.Duplicate || enqueued.Queue != "mail" || enqueued.Type != "welcome" || enqueued.RunAtMS != enqueued.CreatedAtMS+60000 {
			t.Errorf("answer: got %+v", enqueued)
		}
		job := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+enqueued.ID, "")
		got := fmt.Sprintf("%s %s %s %d %d %d %v %+v %v %s", job.Queue, job.Type, job.State, job.Priority, job.MaxAttempts, job.TimeoutMS, *job.Backoff, job.Tags, job.LastError, job.Payload)
		if want := `mail welcome scheduled 7 3 5000 {list 0 0 [1000 2000]} map[tenant:acme] <nil> {"to":"<a&b>","n":1.50}`; got != want {
			t.Errorf("job: got %s\nwant %s", got, want)
		}
		if job.StartedAtMS != nil || job.FinishedAtMS != nil || job.LeaseUntilMS != nil || job.Attempt != 1 || job.Run != 0 {
			t.Errorf("job: got %+v", job)
		}
	})
	t.Run("the type is default when none is given", func(t *testing.T) {
		if got := f.enqueue(`{"queue":"plain"}`); got.Type != "default" || got.State != "queued" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a duplicate answers 200 with the first job", func(t *testing.T) {
		const spec = `{"queue":"keys","idempotency_key":"k1","payload":1}`
		first := f.enqueue(spec)
		again := call[client.Enqueued](f, http.StatusOK, "POST", "/v1/jobs", spec)
		if !again.Duplicate || again.ID != first.ID {
			t.Errorf("got %+v, want a duplicate of %s", again, first.ID)
		}
	})
	t.Run("another body under the key is a conflict", func(t *testing.T) {
		w := f.send("POST", "/v1/jobs", `{"queue":"keys","idempotency_key":"k1","payload":2}`)
		wantError(t, w, http.StatusConflict, client.CodeIdempotencyConflict, "another body")
	})
	t.Run("an array answers an array in its order", func(t *testing.T) {
		batch := call[client.EnqueuedBatch](f, http.StatusCreated, "POST", "/v1/jobs",
			` [{"queue":"b1"},{"queue":"keys","idempotency_key":"k1","payload":1},{"queue":"b2","type":"t"}]`)
		if len(batch.Jobs) != 3 || batch.Jobs[0].Queue != "b1" || !batch.Jobs[1].Duplicate || batch.Jobs[2].Type != "t" {
			t.Errorf("got %+v", batch)
		}
	})
	t.Run("an array of duplicates answers 200", func(t *testing.T) {
		call[client.EnqueuedBatch](f, http.StatusOK, "POST", "/v1/jobs", `[{"queue":"keys","idempotency_key":"k1","payload":1}]`)
	})
	t.Run("an array is all or nothing", func(t *testing.T) {
		w := f.send("POST", "/v1/jobs", `[{"queue":"none"},{"queue":"keys","idempotency_key":"k1","payload":3}]`)
		wantError(t, w, http.StatusConflict, client.CodeIdempotencyConflict, "")
		// Not even the queue is there.
		wantError(t, f.send("GET", "/v1/jobs?queue=none", ""), http.StatusNotFound, client.CodeNotFound, "")
	})
}

func TestSeqOfAnswers(t *testing.T) {
	f := overQueue(t)
	seq := func(w interface{ Header() http.Header }) (epoch, n int) {
		if _, err := fmt.Sscanf(w.Header().Get("Holdfast-Seq"), "%d.%d", &epoch, &n); err != nil {
			t.Fatalf("Holdfast-Seq %q: %v", w.Header().Get("Holdfast-Seq"), err)
		}
		return epoch, n
	}
	_, before := seq(f.send("GET", "/v1/queues", ""))
	epoch, first := seq(f.send("POST", "/v1/jobs", `{"queue":"mail"}`))
	_, second := seq(f.send("POST", "/v1/jobs", `{"queue":"mail"}`))
	_, read := seq(f.send("GET", "/v1/jobs/1", ""))
	if epoch != 1 || before >= first || first >= second || read < second {
		t.Errorf("got epoch %d and seqs %d, %d, %d, %d", epoch, before, first, second, read)
	}
}

func TestList(t *testing.T) {
	f := overQueue(t)
	for i := range 5 {
		f.enqueue(fmt.Sprintf(`{"queue":"mail","type":"t%d","payload":%d,"tags":{"n":"%d"}}`, i%2, i, i))
	}
	f.enqueue(`{"queue":"other"}`)
	page := func(query string) client.Jobs {
		return call[client.Jobs](f, http.StatusOK, "GET", "/v1/jobs"+query, "")
	}
	t.Run("pages follow each other without gap or overlap", func(t *testing.T) {
		var seen []string
		for query := "?queue=mail&limit=2"; ; {
			got := page(query)
			for _, job := range got.Jobs {
				seen = append(seen, job.ID)
			}
			if got.Next == nil {
				break
			}
			query = "?queue=mail&limit=2&after=" + *got.Next
		}
		if got, want := strings.Join(seen, " "), "5 4 3 2 1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("filters select", func(t *testing.T) {
		for query, want := range map[string]int{"": 6, "?type=t0": 3, "?state=queued&queue=other": 1, "?state=dead": 0, "?tag=n:3": 1, "?archived=true": 6} {
			if got := len(page(query).Jobs); got != want {
				t.Errorf("%s: got %d jobs, want %d", query, got, want)
			}
		}
	})
	t.Run("payloads come when asked for", func(t *testing.T) {
		if got := page("?queue=mail&limit=1").Jobs[0].Payload; got != nil {
			t.Errorf("got %s", got)
		}
		if got := page("?queue=mail&limit=1&payload=true").Jobs[0].Payload; string(got) != "4" {
			t.Errorf("got %q, want 4", got)
		}
	})
	t.Run("an empty page has an array and no next", func(t *testing.T) {
		if got, want := f.send("GET", "/v1/jobs?queue=mail&state=dead", "").Body.String(), `{"jobs":[],"next":null}`+"\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestRetryAndCancel(t *testing.T) {
	f := overQueue(t)
	die := func() string {
		f.enqueue(`{"queue":"mail","payload":"old","max_attempts":1}`)
		job := f.claimOne("mail")
		call[client.Results](f, http.StatusOK, "POST", "/v1/fails", bodyf(`{"fails":[{"lease":%s,"error":"smtp 451"}]}`, job.Lease))
		return job.ID
	}
	t.Run("a dead job is retried as it was", func(t *testing.T) {
		id := die()
		if got := call[client.Job](f, http.StatusOK, "POST", "/v1/jobs/"+id+"/retry", ""); got.State != "queued" || got.Failures != 0 || got.Run != 1 {
			t.Errorf("got %+v", got)
		}
		if got := f.claimOne("mail"); got.ID != id || string(got.Payload) != `"old"` || got.Run != 2 || got.Attempt != 1 {
			t.Errorf("claim: got %+v", got)
		}
	})
	t.Run("a dead job is retried with another payload", func(t *testing.T) {
		id := die()
		call[client.Job](f, http.StatusOK, "POST", "/v1/jobs/"+id+"/retry", `{"payload":{"new":true}}`)
		if got := f.claimOne("mail"); got.ID != id || string(got.Payload) != `{"new":true}` {
			t.Errorf("claim: got %+v", got)
		}
	})
	t.Run("a queued job is cancelled at once, and again", func(t *testing.T) {
		id := f.enqueue(`{"queue":"mail"}`).ID
		for range 2 {
			if got := call[client.Job](f, http.StatusOK, "POST", "/v1/jobs/"+id+"/cancel", ""); got.State != "cancelled" || got.FinishedAtMS == nil {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("a refusal names the state and what is possible", func(t *testing.T) {
		queued := f.enqueue(`{"queue":"other"}`).ID
		wantError(t, f.send("POST", "/v1/jobs/"+queued+"/retry", ""), http.StatusConflict, client.CodeWrongState,
			"job "+queued+" is queued; only a dead job can be retried")
		dead := die()
		wantError(t, f.send("POST", "/v1/jobs/"+dead+"/cancel", ""), http.StatusConflict, client.CodeWrongState,
			"job "+dead+" is dead; only a scheduled, queued or running job can be cancelled")
		for _, path := range []string{"/retry", "/cancel"} {
			wantError(t, f.send("POST", "/v1/jobs/999"+path, ""), http.StatusNotFound, client.CodeNotFound, "no such job: 999")
		}
		wantError(t, f.send("GET", "/v1/jobs/999", ""), http.StatusNotFound, client.CodeNotFound, "no such job: 999")
		wantError(t, f.send("GET", "/v1/jobs/abc", ""), http.StatusBadRequest, client.CodeInvalid, `"abc" is not a job's id`)
	})
	t.Run("a running job is told at its next extend", func(t *testing.T) {
		f.enqueue(`{"queue":"slow"}`)
		job := f.claimOne("slow")
		if got := call[client.Job](f, http.StatusOK, "POST", "/v1/jobs/"+job.ID+"/cancel", "{}"); got.State != "running" || !got.CancelRequested {
			t.Errorf("got %+v", got)
		}
		if got := call[client.Result](f, http.StatusOK, "POST", "/v1/jobs/"+job.ID+"/extend", bodyf(`{"lease":%s}`, job.Lease)); !got.Cancel {
			t.Errorf("got %+v", got)
		}
	})
}
