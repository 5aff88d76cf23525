package tests_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestEvents follows a queue on the command line while a job lives.
func TestEvents(t *testing.T) {
	n := serve(t, t.TempDir())
	follow := func(args ...string) *process {
		cmd := exec.Command(binary(t), append([]string{"events"}, args...)...)
		cmd.Env = cleanEnv("HOLDFAST_URL=" + n.url)
		return launch(t, cmd)
	}
	text, lines := follow("mail"), follow("--json")
	// Only the stream itself tells that it has begun.
	eventually(t, 20*time.Second, "both follow", func() bool {
		n.enqueue(client.Spec{Queue: "mail"})
		return strings.Contains(text.out.String(), "new → queued") && strings.Contains(lines.out.String(), `"position"`)
	})
	other := n.enqueue(client.Spec{Queue: "other"}).ID
	id := n.enqueue(client.Spec{Queue: "mail"}).ID
	if code, _, stderr := n.cli("cancel", id); code != 0 {
		t.Fatal(stderr)
	}
	eventually(t, 20*time.Second, "the cancel is told", func() bool {
		return strings.Contains(text.out.String(), "mail  "+id+"  queued → cancelled") && strings.Contains(lines.out.String(), `"to":"cancelled"`)
	})
	if strings.Contains(text.out.String(), "  "+other+"  ") {
		t.Errorf("a job of another queue is told of: %s", text.out.String())
	}
	for line := range strings.Lines(strings.TrimSpace(lines.out.String())) {
		var event client.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil || (event.Changes == nil) == (event.Position == nil) {
			t.Errorf("%v: %s", err, line)
		}
	}
	if code := text.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0 when it is stopped", code)
	}
	n.terminate()
	eventually(t, 20*time.Second, "the end of the node is told", func() bool { return strings.Contains(lines.out.String(), "the node is stopping") })
}
