//go:build unix

package tests_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"holdfast/node/client"
	"holdfast/tests/s3server"
)

// TestStatusOfReplica asks a bucket how the queues were whose node is gone.
func TestStatusOfReplica(t *testing.T) {
	s, p := newWatched(t)
	primary := p.serve()
	primary.fill(50)
	var want client.Health
	primary.get("/v1/health", &want)
	primary.synced()
	primary.kill()
	from := "s3://" + s.Bucket + "/root?endpoint=" + s.URL + "&region=" + s3server.Region
	status := func(args ...string) (int, string, string) {
		cmd := exec.Command(binary(t), append([]string{"status"}, args...)...)
		cmd.Env = cleanEnv("AWS_ACCESS_KEY_ID="+s3server.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+s3server.SecretAccessKey, "TMPDIR="+t.TempDir())
		return run(t, cmd)
	}
	was := s.Count(s3server.Put, "") + s.Count(s3server.Delete, "")
	t.Run("it shows what the node had uploaded", func(t *testing.T) {
		code, out, stderr := status("--from", from, "--json")
		var got client.Health
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("%d, %s%s, %v", code, out, stderr, err)
		}
		a, _ := json.Marshal(want.Queues) // plain values
		b, _ := json.Marshal(got.Queues)
		if string(a) != string(b) || got.Replication.Seq != want.Replication.Seq || got.Replication.LagMS == nil {
			t.Errorf("got %s of %+v, want %s of %+v", b, got.Replication, a, want.Replication)
		}
	})
	t.Run("a table says how old it is", func(t *testing.T) {
		if code, out, stderr := status("q", "--from", from); code != 0 || !strings.Contains(out, "lag ") || !strings.Contains(out, "for ") {
			t.Errorf("%d, %s%s", code, out, stderr)
		}
	})
	t.Run("what is not there is told", func(t *testing.T) {
		if code, _, stderr := status("none", "--from", from); code != 3 || !strings.Contains(stderr, `no such queue: "none"`) {
			t.Errorf("%d, %s", code, stderr)
		}
		if code, _, stderr := status("--from", strings.Replace(from, "/root", "/none", 1)); code != 6 || !strings.Contains(stderr, "lock.json") {
			t.Errorf("%d, %s", code, stderr)
		}
		if code, _, stderr := status("--from", "s3:"); code != 2 {
			t.Errorf("%d, %s", code, stderr)
		}
	})
	if now := s.Count(s3server.Put, "") + s.Count(s3server.Delete, ""); now != was {
		t.Errorf("%d requests changed the bucket", now-was)
	}
}
