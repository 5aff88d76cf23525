package node_test

import (
	"net/http"
	"testing"

	"holdfast/node/client"
)

func TestClaim(t *testing.T) {
	f := overQueue(t)
	t.Run("an empty claim has an array of no jobs", func(t *testing.T) {
		if got, want := f.send("POST", "/v1/claims", `{"queues":["mail"]}`).Body.String(), `{"jobs":[]}`+"\n"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("a job comes with all that its worker needs", func(t *testing.T) {
		enqueued := f.enqueue(`{"queue":"mail","type":"welcome","payload":{"to":"a"},"priority":3,"timeout_ms":5000,"tags":{"k":"v"}}`)
		job := call[client.Claims](f, http.StatusOK, "POST", "/v1/claims", `{"queues":["none","mail"],"worker":"w1","max":5,"wait_ms":1000,"lease_ms":2000}`).Jobs[0]
		if job.ID != enqueued.ID || job.Queue != "mail" || job.Type != "welcome" || string(job.Payload) != `{"to":"a"}` || job.Priority != 3 ||
			job.Run != 1 || job.Attempt != 1 || job.MaxAttempts != 5 || job.TimeoutMS != 5000 || job.Tags["k"] != "v" || job.Lease == "" ||
			job.RunAtMS != enqueued.RunAtMS || job.CreatedAtMS != enqueued.CreatedAtMS {
			t.Errorf("got %+v", job)
		}
		stands := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+job.ID, "")
		if stands.State != "running" || stands.LockedBy != "w1" || stands.StartedAtMS == nil || stands.LeaseUntilMS == nil ||
			*stands.LeaseUntilMS != job.LeaseUntilMS || *stands.LeaseUntilMS != *stands.StartedAtMS+2000 {
			t.Errorf("job: got %+v", stands)
		}
	})
	t.Run("a job without a payload has null", func(t *testing.T) {
		f.enqueue(`{"queue":"bare"}`)
		if got := f.claimOne("bare").Payload; string(got) != "null" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a claim settles the last jobs too", func(t *testing.T) {
		f.enqueue(`{"queue":"chain"}`)
		f.enqueue(`{"queue":"chain"}`)
		f.enqueue(`{"queue":"chain"}`)
		first, second := f.claimOne("chain"), f.claimOne("chain")
		got := call[client.Claims](f, http.StatusOK, "POST", "/v1/claims",
			bodyf(`{"queues":["chain"],"acks":[{"lease":%s},{"lease":"gone"}],"fails":[{"lease":%s,"fatal":true}]}`, first.Lease, second.Lease))
		if len(got.Jobs) != 1 || len(got.Acks) != 2 || len(got.Fails) != 1 {
			t.Fatalf("got %+v", got)
		}
		if !got.Acks[0].OK || got.Acks[0].ID != first.ID || got.Acks[1].OK || got.Acks[1].Error.Code != "lease_lost" || got.Fails[0].State != "dead" {
			t.Errorf("got %+v, %+v", got.Acks, got.Fails)
		}
	})
}

func TestFinishInBatches(t *testing.T) {
	f := overQueue(t)
	claim := func() client.Claimed {
		f.enqueue(`{"queue":"mail"}`)
		return f.claimOne("mail")
	}
	post := func(path, format string, args ...any) []client.Result {
		return call[client.Results](f, http.StatusOK, "POST", path, bodyf(format, args...)).Results
	}
	t.Run("a lost lease fails its own ack alone", func(t *testing.T) {
		lost, kept := claim(), claim()
		post("/v1/acks", `{"acks":[{"lease":%s}]}`, lost.Lease)
		got := post("/v1/acks", `{"acks":[{"lease":%s},{"lease":%s,"result":{"n":1}}],"durability":"local"}`, lost.Lease, kept.Lease)
		if got[0].OK || got[0].ID != lost.ID || got[0].Error == nil || got[0].Error.Code != "lease_lost" || got[0].Error.Message == "" {
			t.Errorf("lost: got %+v", got[0])
		}
		if !got[1].OK || got[1].ID != kept.ID || got[1].State != "done" || got[1].Error != nil {
			t.Errorf("kept: got %+v", got[1])
		}
		if job := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+kept.ID, ""); string(job.Result) != `{"n":1}` {
			t.Errorf("result: got %s", job.Result)
		}
	})
	t.Run("a fail is retried when it asks, or by the back-off, or never", func(t *testing.T) {
		a, b, c := claim(), claim(), claim()
		got := post("/v1/fails", `{"fails":[{"lease":%s,"error":"smtp 451","retry_in_ms":7200000},{"lease":%s},{"lease":%s,"fatal":true}]}`, a.Lease, b.Lease, c.Lease)
		if got[0].State != "scheduled" || got[1].State != "scheduled" || got[2].State != "dead" || got[2].RunAtMS != 0 {
			t.Errorf("got %+v", got)
		}
		if asked := got[0].RunAtMS - got[1].RunAtMS; asked < 6_000_000 {
			t.Errorf("the delay asked for is %d ms above that of the back-off", asked)
		}
		job := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+a.ID, "")
		if job.LastError == nil || *job.LastError != "smtp 451" || job.Failures != 1 || len(job.Runs) != 1 || job.Runs[0].Outcome != "failed" || job.Runs[0].Worker != "w1" {
			t.Errorf("job: got %+v", job)
		}
	})
	t.Run("a released job can be claimed at once", func(t *testing.T) {
		job := claim()
		if got := post("/v1/releases", `{"releases":[{"lease":%s}]}`, job.Lease); !got[0].OK || got[0].State != "queued" {
			t.Errorf("got %+v", got)
		}
		if again := f.claimOne("mail"); again.ID != job.ID || again.Run != 2 || again.Attempt != 1 {
			t.Errorf("got %+v", again)
		}
	})
	t.Run("an extend prolongs the lease and keeps progress", func(t *testing.T) {
		job := claim()
		got := post("/v1/extends", `{"extends":[{"lease":%s,"lease_ms":300000,"progress":{"pct":50}}]}`, job.Lease)
		if !got[0].OK || got[0].Cancel || got[0].LeaseUntilMS < job.LeaseUntilMS+200_000 {
			t.Errorf("got %+v, lease until %d before", got, job.LeaseUntilMS)
		}
		if stands := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+job.ID, ""); string(stands.Progress) != `{"pct":50}` {
			t.Errorf("progress: got %s", stands.Progress)
		}
	})
}

func TestFinishOne(t *testing.T) {
	f := overQueue(t)
	for _, tt := range []struct{ verb, body, state string }{
		{"ack", `{"lease":%s,"result":[1]}`, "done"},
		{"fail", `{"lease":%s,"error":"x","retry_in_ms":60000}`, "scheduled"},
		{"release", `{"lease":%s}`, "queued"},
		{"extend", `{"lease":%s}`, "running"},
	} {
		f.enqueue(bodyf(`{"queue":%s}`, tt.verb))
		job, other := f.claimOne(tt.verb), f.enqueue(`{"queue":"other"}`)
		path := "/v1/jobs/" + job.ID + "/" + tt.verb
		t.Run(tt.verb+" with the lease of another job is lost", func(t *testing.T) {
			w := f.send("POST", "/v1/jobs/"+other.ID+"/"+tt.verb, bodyf(tt.body, job.Lease))
			wantError(t, w, http.StatusConflict, client.CodeLeaseLost, "a lease of job "+job.ID+", and not of job "+other.ID)
			if got := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+job.ID, "").State; got != "running" {
				t.Errorf("the job is %s", got)
			}
		})
		t.Run(tt.verb+" answers the result itself", func(t *testing.T) {
			if got := call[client.Result](f, http.StatusOK, "POST", path, bodyf(tt.body, job.Lease)); !got.OK || got.ID != job.ID {
				t.Errorf("got %+v", got)
			}
			if got := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+job.ID, "").State; got != tt.state {
				t.Errorf("the job is %s, want %s", got, tt.state)
			}
		})
		if tt.verb == "extend" {
			continue // the lease still holds
		}
		t.Run(tt.verb+" with a lost lease is a conflict", func(t *testing.T) {
			wantError(t, f.send("POST", path, bodyf(tt.body, job.Lease)), http.StatusConflict, client.CodeLeaseLost, "lost")
		})
	}
}

func TestQueuesAndHealth(t *testing.T) {
	f := overQueue(t)
	t.Run("a new node has arrays of nothing", func(t *testing.T) {
		if got, want := f.send("GET", "/v1/queues", "").Body.String(), `{"queues":[]}`+"\n"; got != want {
			t.Errorf("queues: got %s, want %s", got, want)
		}
		if got := call[client.Health](f, http.StatusOK, "GET", "/v1/health", ""); got.Queues == nil || len(got.Queues) != 0 {
			t.Errorf("health: got %+v", got)
		}
	})
	oldest := f.enqueue(`{"queue":"mail"}`)
	f.enqueue(`{"queue":"mail"}`)
	f.enqueue(`{"queue":"mail","delay_ms":60000}`)
	f.enqueue(`{"queue":"web","max_attempts":1}`)
	dead := f.claimOne("web")
	call[client.Result](f, http.StatusOK, "POST", "/v1/jobs/"+dead.ID+"/fail", bodyf(`{"lease":%s,"error":"boom"}`, dead.Lease))
	t.Run("queues have counts and the oldest", func(t *testing.T) {
		queues := call[client.Queues](f, http.StatusOK, "GET", "/v1/queues", "").Queues
		if len(queues) != 2 || queues[0].Name != "mail" || queues[1].Name != "web" {
			t.Fatalf("got %+v", queues)
		}
		if want := (client.Counts{Scheduled: 1, Queued: 2}); queues[0].Counts != want {
			t.Errorf("mail: got %+v, want %+v", queues[0].Counts, want)
		}
		if want := (client.Counts{Dead: 1}); queues[1].Counts != want {
			t.Errorf("web: got %+v, want %+v", queues[1].Counts, want)
		}
		if got := queues[0].OldestQueuedAtMS; got == nil || *got != oldest.RunAtMS {
			t.Errorf("oldest: got %v, want %d", got, oldest.RunAtMS)
		}
		if got := queues[1].OldestQueuedAtMS; got != nil {
			t.Errorf("oldest of nothing: got %d", *got)
		}
	})
	t.Run("the health of one queue is its own", func(t *testing.T) {
		health := call[client.Health](f, http.StatusOK, "GET", "/v1/health?queue=web", "")
		if len(health.Queues) != 1 {
			t.Fatalf("got %+v", health)
		}
		web := health.Queues[0]
		if web.Dead != 1 || web.LastError == nil || *web.LastError != "boom" || web.LastErrorAtMS == nil || web.OldestQueuedAtMS != nil {
			t.Errorf("got %+v", web)
		}
		if r := health.Replication; r.Epoch != 1 || r.Seq < 6 || r.ReplicatedSeq != nil || r.LagMS != nil {
			t.Errorf("replication: got %+v", r)
		}
	})
}
