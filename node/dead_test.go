package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

// die makes a job that is dead for a reason.
func (f *fixture) die(queue, reason string) string {
	f.t.Helper()
	id := f.enqueue(bodyf(`{"queue":%s,"payload":{"n":1}}`, queue)).ID
	job := f.claimOne(queue)
	call[client.Result](f, http.StatusOK, "POST", "/v1/jobs/"+id+"/fail", bodyf(`{"lease":%s,"error":%s,"fatal":true}`, job.Lease, reason))
	return id
}

func TestDeadInBulk(t *testing.T) {
	f := overQueue(t)
	for range 3 {
		f.die("mail", "smtp 451")
	}
	other := f.die("mail", "no such address")
	f.die("sms", "smtp 451")
	step := func(path, body string) client.DeadStep {
		t.Helper()
		return call[client.DeadStep](f, http.StatusOK, "POST", path, body)
	}
	fp := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+other, "").ErrorFP
	t.Run("a dry run counts and changes nothing", func(t *testing.T) {
		for body, want := range map[string]int{
			`{"dry_run":true}`: 5, `{"dry_run":true,"queue":"mail"}`: 4, bodyf(`{"dry_run":true,"error":%s}`, fp): 1,
			`{"dry_run":true,"before_ms":1}`: 0, `{"dry_run":true,"since_ms":1}`: 5, `{"dry_run":true,"type":"welcome"}`: 0,
			`{"dry_run":true,"queue":"mail","limit":1}`: 4,
		} {
			if got := step("/v1/dead/retry", body); got.Count != want || got.Next != nil {
				t.Errorf("%s: got %+v, want %d", body, got, want)
			}
		}
	})
	t.Run("an archive takes those of an error alone", func(t *testing.T) {
		if got := step("/v1/dead/archive", bodyf(`{"error":%s}`, fp)); got.Count != 1 {
			t.Errorf("got %+v", got)
		}
		if job := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+other, ""); job.ArchivedAtMS == nil {
			t.Errorf("got %+v", job)
		}
	})
	t.Run("a retry goes in steps", func(t *testing.T) {
		total, body := 0, `{"queue":"mail","limit":2}`
		for range 5 {
			got := step("/v1/dead/retry", body)
			total += got.Count
			if got.Next == nil {
				break
			}
			body = bodyf(`{"queue":"mail","limit":2,"after":%s}`, *got.Next)
		}
		if total != 3 {
			t.Errorf("got %d, want 3", total)
		}
	})
}

func TestDeadGroups(t *testing.T) {
	f := overQueue(t)
	for i := range 3 {
		f.die("mail", fmt.Sprintf("smtp 451 for user%d@example.com", i))
	}
	last := f.die("mail", "smtp 451 for b@example.com")
	f.die("mail", "no such address")
	f.die("sms", "smtp 451 for a@example.com")
	archived := f.die("mail", "no such address")
	call[client.Job](f, http.StatusOK, "POST", "/v1/jobs/"+archived+"/archive", "")
	groups := func(query string) client.DeadGroups {
		t.Helper()
		return call[client.DeadGroups](f, http.StatusOK, "GET", "/v1/dead/groups"+query, "")
	}
	all := groups("")
	t.Run("errors of one kind are one group, without what is archived", func(t *testing.T) {
		if all.Kinds != 3 || all.Total != 6 || all.Partial || len(all.Groups) != 3 {
			t.Fatalf("got %+v", all)
		}
		first := all.Groups[0]
		if first.Queue != "mail" || first.Jobs != 4 || first.Sample.ID != last || first.Sample.LastError == nil || first.ErrorFP != first.Sample.ErrorFP {
			t.Errorf("got %+v", first)
		}
		for _, g := range all.Groups {
			if g.Sample.Payload != nil || g.Sample.State != "dead" {
				t.Errorf("got the sample %+v", g.Sample)
			}
		}
	})
	t.Run("a group's error selects its jobs for a retry", func(t *testing.T) {
		for _, g := range all.Groups {
			got := call[client.DeadStep](f, http.StatusOK, "POST", "/v1/dead/retry", bodyf(`{"dry_run":true,"queue":%s,"error":%s}`, g.Queue, g.ErrorFP))
			if int64(got.Count) != g.Jobs {
				t.Errorf("got %+v, want %+v", got, g)
			}
		}
	})
	t.Run("filters select", func(t *testing.T) {
		for query, want := range map[string]int64{
			"?queue=mail": 5, "?error=" + all.Groups[0].ErrorFP: 5, "?since_ms=1": 6, "?before_ms=1": 0, "?type=welcome": 0, "?tag=k:v": 0, "?limit=1": 6,
		} {
			if got := groups(query); got.Total != want || want == 0 && got.Groups == nil {
				t.Errorf("%s: got %+v, want %d", query, got, want)
			}
		}
		if got := groups("?limit=1"); len(got.Groups) != 1 || got.Kinds != 3 {
			t.Errorf("a limit: got %+v", got)
		}
	})
	t.Run("the client asks for them", func(t *testing.T) {
		server := httptest.NewServer(f.api)
		defer server.Close()
		c, err := client.New(server.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got, err := c.DeadGroups(t.Context(), client.DeadRequest{Queue: "mail", Error: all.Groups[0].ErrorFP, SinceMS: 1, BeforeMS: 1 << 50, Limit: 1})
		if err != nil || got.Total != 4 || len(got.Groups) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
		for _, none := range []client.DeadRequest{{Type: "welcome"}, {Tag: "k:v"}, {BeforeMS: 1}, {SinceMS: 1 << 50}} {
			if got, err := c.DeadGroups(t.Context(), none); err != nil || got.Total != 0 {
				t.Errorf("%+v: got %+v, %v", none, got, err)
			}
		}
	})
}

func TestArchiveAndDelete(t *testing.T) {
	f := overQueue(t)
	id := f.die("mail", "oh")
	if job := call[client.Job](f, http.StatusOK, "POST", "/v1/jobs/"+id+"/archive", ""); job.ArchivedAtMS == nil || job.State != "dead" {
		t.Errorf("archive: got %+v", job)
	}
	if got := call[client.Deleted](f, http.StatusOK, "DELETE", "/v1/jobs/"+id, ""); got.ID != id || !got.Deleted {
		t.Errorf("delete: got %+v", got)
	}
	wantError(t, f.send("GET", "/v1/jobs/"+id, ""), http.StatusNotFound, client.CodeNotFound, "no such job")
}

func TestSnooze(t *testing.T) {
	f := overQueue(t)
	f.enqueue(`{"queue":"mail"}`)
	f.enqueue(`{"queue":"mail"}`)
	first, second := f.claimOne("mail"), f.claimOne("mail")
	got := call[client.Results](f, http.StatusOK, "POST", "/v1/snoozes", bodyf(`{"snoozes":[{"lease":%s,"delay_ms":60000},{"lease":"1.1.1.x","delay_ms":1}]}`, first.Lease)).Results
	if !got[0].OK || got[0].State != "scheduled" || got[0].RunAtMS == 0 || got[1].Error == nil || got[1].Error.Code != client.CodeLeaseLost {
		t.Errorf("got %+v", got)
	}
	one := call[client.Result](f, http.StatusOK, "POST", "/v1/jobs/"+second.ID+"/snooze", bodyf(`{"lease":%s,"delay_ms":60000}`, second.Lease))
	if one.State != "scheduled" {
		t.Errorf("got %+v", one)
	}
	if job := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+first.ID, ""); job.Attempt != 1 || job.Run != 1 || job.Interruptions != 0 {
		t.Errorf("got %+v", job)
	}
}

func TestWaitForAJob(t *testing.T) {
	f := overQueue(t)
	id := f.enqueue(`{"queue":"mail"}`).ID
	job := f.claimOne("mail")
	t.Run("that does not end returns it as it is", func(t *testing.T) {
		if got := call[client.Job](f, http.StatusOK, "GET", "/v1/jobs/"+id+"?wait_ms=50", ""); got.State != "running" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("that ends returns then", func(t *testing.T) {
		timer := time.AfterFunc(50*time.Millisecond, func() { f.send("POST", "/v1/jobs/"+id+"/ack", bodyf(`{"lease":%s,"result":7}`, job.Lease)) })
		defer timer.Stop()
		start := time.Now()
		w := f.send("GET", "/v1/jobs/"+id+"?wait_ms=20000", "")
		if got := answerOf[client.Job](t, w); got.State != "done" || string(got.Result) != "7" {
			t.Errorf("got %+v", got)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestExport(t *testing.T) {
	f := overQueue(t)
	for range 20 {
		f.enqueue(bodyf(`{"queue":"mail","payload":%s}`, strings.Repeat("x", 40_000)))
	}
	dead := f.die("sms", "oh")
	server := httptest.NewServer(f.api)
	defer server.Close()
	res, err := http.Get(server.URL + "/v1/export")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "application/x-ndjson" || res.Header.Get("Holdfast-Seq") == "" {
		t.Errorf("got %q with %v", got, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	var jobs []client.Job
	for lines.Scan() {
		var job client.Job
		if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	if err := lines.Err(); err != nil || len(jobs) != 21 {
		t.Fatalf("got %d jobs, %v", len(jobs), err)
	}
	if last := jobs[20]; last.ID != dead || len(last.Runs) != 1 || string(last.Payload) != `{"n":1}` || len(jobs[0].Payload) != 40_002 {
		t.Errorf("got %+v", last)
	}
}

func TestHeadOfAnExport(t *testing.T) {
	f := overQueue(t)
	f.enqueue(`{"queue":"mail"}`)
	if w := f.send("HEAD", "/v1/export", ""); w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("got %d with %v and %q", w.Code, w.Header(), w.Body)
	}
}

// exporter exports some jobs and then fails.
type exporter struct {
	stub
	jobs int
}

func (e *exporter) Export(context.Context) iter.Seq2[queue.Job, error] {
	return func(yield func(queue.Job, error) bool) {
		for i := range e.jobs {
			if !yield(queue.Job{ID: int64(i), Payload: json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)}, nil) {
				return
			}
		}
		yield(queue.Job{}, errors.New("sector 7"))
	}
}

func TestExportThatFails(t *testing.T) {
	t.Run("before the first line is an error", func(t *testing.T) {
		wantError(t, over(t, &exporter{}).send("GET", "/v1/export", ""), http.StatusInternalServerError, client.CodeInternal, "log")
	})
	t.Run("later is seen by the client", func(t *testing.T) {
		f := over(t, &exporter{jobs: 10})
		server := httptest.NewServer(f.api)
		defer server.Close()
		res, err := http.Get(server.URL + "/v1/export")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v, want an unexpected end", err)
		}
		c, err := client.New(server.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var last error
		for _, err := range c.Export(t.Context()) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), "cut off before its end") {
			t.Errorf("the client got %v", last)
		}
		server.Close() // which waits for the handlers
		if !strings.Contains(f.log.String(), "sector 7") {
			t.Errorf("log: %s", f.log)
		}
	})
}

func TestPagesAreBounded(t *testing.T) {
	f := overQueue(t)
	for range 40 {
		f.enqueue(bodyf(`{"queue":"mail","payload":%s}`, strings.Repeat("x", 1<<20-10)))
	}
	seen := map[string]bool{}
	path, pages := "/v1/jobs?queue=mail&payload=true&limit=1000", 0
	for after := ""; ; pages++ {
		w := f.send("GET", path+after, "")
		if size := w.Body.Len(); size > 17<<20 {
			t.Errorf("a page of %d bytes", size)
		}
		page := answerOf[client.Jobs](t, w)
		for _, j := range page.Jobs {
			seen[j.ID] = true
		}
		if page.Next == nil {
			break
		}
		after = "&after=" + *page.Next
	}
	if len(seen) != 40 || pages < 1 {
		t.Errorf("got %d jobs in %d pages", len(seen), pages+1)
	}
	t.Run("by jobs too", func(t *testing.T) {
		for _, limit := range []int{1, 16, 17, 33} {
			page := call[client.Jobs](f, http.StatusOK, "GET", fmt.Sprintf("/v1/jobs?queue=mail&limit=%d", limit), "")
			if len(page.Jobs) != limit || page.Next == nil {
				t.Errorf("limit %d: got %d", limit, len(page.Jobs))
			}
		}
	})
}
