package tests_test

import (
	"os"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// TestSeveralRoots is how deploy/docs/operations.md spreads queues over nodes:
// each with a root of its own in one bucket, each lost and restored alone.
func TestSeveralRoots(t *testing.T) {
	s := s3server.Start(t)
	letters, pictures := newPlace(t, "letters", bucket(s, "letters")), newPlace(t, "pictures", bucket(s, "pictures"))
	letters.ok("init")
	pictures.ok("init")
	lost, other := letters.serve(), pictures.serve()
	want := lost.fill(100)
	lost.synced()
	before := other.enqueue(client.Spec{Queue: "thumbs"})

	lost.kill()
	if err := os.RemoveAll(letters.dir); err != nil {
		t.Fatal(err)
	}
	after := other.enqueue(client.Spec{Queue: "thumbs"}) // goes on
	other.synced()
	if got := other.claim("thumbs", 10); len(got) != 2 || got[0].ID != before.ID || got[1].ID != after.ID {
		t.Errorf("the other node has %+v", got)
	}

	lost = letters.serve()
	lost.wantJobs(want)
	if code, stdout, _ := lost.cli("queues", "--json"); code != 0 || strings.Contains(stdout, "thumbs") {
		t.Errorf("the queues: %d, %s", code, stdout)
	}
	if l, p := letters.verify(), pictures.verify(); l.Epoch != 2 || p.Epoch != 1 {
		t.Errorf("the roots are at %+v and %+v, want epochs 2 and 1", l, p)
	}
}
