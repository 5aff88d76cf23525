package main

import (
	"testing"

	"holdfast/node/client"
)

func TestEnqueueWishes(t *testing.T) {
	s := startNode(t)
	t.Run("a back-off of the job's own", func(t *testing.T) {
		var in client.Enqueued
		s.read(&in, "enqueue", "mail", "--backoff", "list:1s,5s", "--durability", "local")
		var job client.Job
		s.read(&job, "get", in.ID)
		if b := job.Backoff; b == nil || b.Kind != "list" || len(b.DelaysMS) != 2 || b.DelaysMS[1] != 5000 {
			t.Errorf("got %+v", b)
		}
	})
	t.Run("the queue's, by its name", func(t *testing.T) {
		s.ok("enqueue", "mail", "--backoff", "default")
	})
	for args, want := range map[string]string{"--backoff=slow": "--backoff: ", "--durability=forever": "--durability: must be local or replicated"} {
		t.Run("a wish that is none: "+args, func(t *testing.T) {
			code, _, stderr := s.run("enqueue", "mail", args)
			if code != exitUsage {
				t.Errorf("exit code %d, want %d", code, exitUsage)
			}
			wantText(t, stderr, want)
		})
	}
	t.Run("a wish that this node cannot fulfil", func(t *testing.T) {
		code, _, stderr := s.run("enqueue", "mail", "--durability", "replicated")
		if code == 0 {
			t.Errorf("exit code 0: %s", stderr)
		}
	})
}
