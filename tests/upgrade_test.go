package tests_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/node/client"
)

// TestUpgrade opens what an early version left behind, in testdata/v1: a data
// directory, and the root that its node wrote. Every later version must open
// both. The files are never made anew.
func TestUpgrade(t *testing.T) {
	place := func(t *testing.T, name string) *place {
		t.Helper()
		root := filepath.Join(t.TempDir(), "bucket")
		if err := os.CopyFS(root, os.DirFS("testdata/v1/bucket")); err != nil {
			t.Fatal(err)
		}
		return newPlace(t, name, folder(root))
	}
	t.Run("its data directory goes on where it stopped", func(t *testing.T) {
		p := place(t, "v1")
		if err := os.CopyFS(p.dir, os.DirFS("testdata/v1/data")); err != nil {
			t.Fatal(err)
		}
		n := p.serve()
		if e := n.epoch(); e != 1 {
			t.Errorf("epoch %d: the directory was not taken for what it is", e)
		}
		wantV1(t, n)
	})
	t.Run("its root restores into an empty directory", func(t *testing.T) {
		p := place(t, "v1")
		n := p.serve()
		if e := n.epoch(); e != 2 {
			t.Errorf("epoch %d, want the next one", e)
		}
		wantV1(t, n)
		if v := p.verify(); !v.OK {
			t.Errorf("the new copy: %+v", v)
		}
	})
}

// wantV1 checks that every job of testdata/v1 is there, and works.
func wantV1(t *testing.T, n *node) {
	t.Helper()
	ctx := context.Background()
	c, err := client.New(n.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	big := `"` + strings.Repeat("x", 4000) + `"`
	for id, want := range map[string]struct{ state, payload string }{
		"1": {"done", "null"}, "2": {"dead", `{"to":"dead"}`}, "3": {"running", `"running"`}, "4": {"queued", big},
		"5": {"scheduled", `"scheduled"`}, "6": {"cancelled", `"cancelled"`}, "7": {"queued", `"queued"`},
	} {
		job, err := c.Job(ctx, id)
		if err != nil {
			t.Fatalf("job %s: %v", id, err)
		}
		if id == "3" && job.State == "queued" {
			job.State = want.state // its lease and its timeout ended long ago, so it may have come back by now
		}
		if job.State != want.state || string(job.Payload) != want.payload {
			t.Errorf("job %s is %s with payload %.20s, want %s with %.20s", id, job.State, job.Payload, want.state, want.payload)
		}
		switch id {
		case "1":
			if string(job.Result) != `{"sent":true}` || job.MaxAttempts != 7 {
				t.Errorf("job 1 has result %s, and %d attempts", job.Result, job.MaxAttempts)
			}
		case "2":
			if job.LastError == nil || *job.LastError != "smtp 451 try again" || len(job.Runs) != 2 || job.Tags["user"] != "42" || job.Priority != 9 || job.Failures != 2 {
				t.Errorf("job 2: %+v", job)
			}
		case "7":
			if job.Backoff == nil || job.Backoff.Kind != "fixed" || job.Backoff.BaseMS != 5000 {
				t.Errorf("job 7 has back-off %+v", job.Backoff)
			}
		}
	}
	again, err := c.Enqueue(ctx, client.Spec{Queue: "mail", Payload: []byte(big), IdempotencyKey: "kept", Priority: 7})
	if err != nil || again[0].ID != "4" || !again[0].Duplicate {
		t.Errorf("its key: %+v, %v", again, err)
	}
	if job, err := c.Retry(ctx, "2", nil); err != nil || job.State != "queued" {
		t.Errorf("retry of its dead job: %+v, %v", job, err)
	}
	claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}, Max: 10, Worker: "v2:1:a"})
	if err != nil {
		t.Fatal(err)
	}
	claimed := map[string]bool{}
	for _, j := range claims.Jobs {
		claimed[j.ID] = true
		if res, err := c.Ack(ctx, client.Ack{Lease: j.Lease}); err != nil || !res[0].OK {
			t.Errorf("ack of job %s: %+v, %v", j.ID, res, err)
		}
	}
	if !claimed["2"] || !claimed["4"] || !claimed["7"] {
		t.Errorf("claimed %v, want its jobs 2, 4 and 7", claimed)
	}
	fresh, err := c.Enqueue(ctx, client.Spec{Queue: "mail"})
	if err != nil || fresh[0].Duplicate {
		t.Errorf("a new job: %+v, %v", fresh, err)
	}
}
