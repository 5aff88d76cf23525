package tests_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestFaultsInRequests sends what must not be taken and reads the answer.
func TestFaultsInRequests(t *testing.T) {
	n := serve(t, t.TempDir())
	big := strings.Repeat("x", 1<<20)
	tests := []struct {
		name, path, body string
		status           int
		code             client.Code
		message          []string
	}{
		{"bad JSON", "/v1/jobs", `{"queue":"q",}`, 400, client.CodeInvalid, nil},
		{"JSON that ends early", "/v1/jobs", `{"queue":"q"`, 400, client.CodeInvalid, nil},
		{"two values", "/v1/jobs", `{"queue":"q"} {}`, 400, client.CodeInvalid, nil},
		{"no body", "/v1/jobs", ``, 400, client.CodeInvalid, nil},
		{"an unknown field", "/v1/jobs", `{"queue":"q","prority":1}`, 400, client.CodeInvalid, []string{"prority"}},
		{"a wrong type", "/v1/jobs", `{"queue":5}`, 400, client.CodeInvalid, []string{"queue"}},
		{"a wrong type in a batch", "/v1/jobs", `[{"queue":"q"},{"queue":"q","priority":"high"}]`, 400, client.CodeInvalid, []string{"priority"}},
		{"no queue", "/v1/jobs", `{}`, 400, client.CodeInvalid, []string{"queue"}},
		{"a negative delay", "/v1/jobs", `{"queue":"q","delay_ms":-1}`, 400, client.CodeInvalid, []string{"delay_ms"}},
		{"a bad job in a batch", "/v1/jobs", `[{"queue":"q"},{"queue":"q","delay_ms":-1}]`, 400, client.CodeInvalid, []string{"jobs[1]", "delay_ms"}},
		{"a payload over 1 MiB", "/v1/jobs", `{"queue":"q","payload":"` + big + `"}`, 413, client.CodeTooLarge, []string{"payload", "1048576"}},
		{"replicated on a node without a replica", "/v1/jobs", `{"queue":"q","durability":"replicated"}`, 400, client.CodeReplicatedUnavailable, nil},
		{"an unknown path", "/v1/job", `{}`, 404, client.CodeNotFound, []string{"no such path"}},
		{"an ack of no token of ours", "/v1/jobs/1/ack", `{"lease":"1.1.1.made-up"}`, 409, client.CodeLeaseLost, []string{"lease"}},
		{"a cancel of an unknown id", "/v1/jobs/999/cancel", ``, 404, client.CodeNotFound, []string{"no such job"}},
		{"a retry of an unknown id", "/v1/jobs/999/retry", ``, 404, client.CodeNotFound, []string{"no such job"}},
		{"a wait over a minute", "/v1/claims", `{"queues":["q"],"wait_ms":60001}`, 400, client.CodeInvalid, []string{"wait_ms"}},
		{"a claim from no queue", "/v1/claims", `{"queues":[]}`, 400, client.CodeInvalid, []string{"queues"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := call(http.DefaultClient, http.MethodPost, n.url+tt.path, tt.body, nil)
			wantError(t, err, tt.status, tt.code, tt.message...)
		})
	}
	t.Run("bad JSON is told with its place", func(t *testing.T) {
		err := call(http.DefaultClient, http.MethodPost, n.url+"/v1/jobs", `{"queue":"q",}`, nil)
		if !regexp.MustCompile(`(byte|offset|position|column) \d+`).MatchString(err.Error()) {
			t.Errorf("no place in %q", err)
		}
	})
	t.Run("a job of an unknown id", func(t *testing.T) {
		err := call(http.DefaultClient, http.MethodGet, n.url+"/v1/jobs/999", nil, nil)
		wantError(t, err, 404, client.CodeNotFound, "no such job")
	})
	t.Run("a method that a path does not have", func(t *testing.T) {
		err := call(http.DefaultClient, http.MethodPut, n.url+"/v1/jobs", nil, nil)
		wantError(t, err, 405, client.CodeMethodNotAllowed)
	})
	t.Run("nothing was half done", func(t *testing.T) {
		if jobs := n.jobsOfAllQueues(); len(jobs) != 0 {
			t.Errorf("the refused requests left %d jobs", len(jobs))
		}
	})
	t.Run("a payload of exactly 1 MiB is taken", func(t *testing.T) {
		n.post("/v1/jobs", `{"queue":"q","payload":"`+big[2:]+`"}`, nil)
	})
}

func TestFaultsOfLeases(t *testing.T) {
	n := serve(t, t.TempDir())
	id := n.enqueue(client.Spec{Queue: "q"}).ID
	lease := n.claimOne("q").Lease
	n.post("/v1/jobs/"+id+"/ack", client.Ack{Lease: lease}, nil)
	before := n.job(id)

	ack := func(path string, body any, out any) error {
		return call(http.DefaultClient, http.MethodPost, n.url+path, body, out)
	}
	t.Run("a second ack is refused", func(t *testing.T) {
		wantError(t, ack("/v1/jobs/"+id+"/ack", client.Ack{Lease: lease}, nil), 409, client.CodeLeaseLost, "lease")
	})
	t.Run("a late failure is refused", func(t *testing.T) {
		wantError(t, ack("/v1/jobs/"+id+"/fail", client.Fail{Lease: lease, Error: "late"}, nil), 409, client.CodeLeaseLost)
	})
	t.Run("in a batch it fails its own item alone", func(t *testing.T) {
		n.enqueue(client.Spec{Queue: "q"})
		good := n.claimOne("q").Lease
		var got client.Results
		if err := ack("/v1/acks", client.AckRequest{Acks: []client.Ack{{Lease: lease}, {Lease: good}}}, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Results) != 2 || got.Results[0].OK || !got.Results[1].OK {
			t.Fatalf("got %+v, want a lost lease and a success", got.Results)
		}
		if e := got.Results[0].Error; e == nil || e.Code != client.CodeLeaseLost {
			t.Errorf("got %+v, want lease_lost", e)
		}
	})
	t.Run("a retry of a job that is not dead is refused", func(t *testing.T) {
		wantError(t, ack("/v1/jobs/"+id+"/retry", nil, nil), 409, client.CodeWrongState)
	})
	t.Run("none of it left a trace", func(t *testing.T) {
		after := n.job(id)
		if after.State != before.State || after.Failures != before.Failures || after.LastError != nil || len(after.Runs) != 0 {
			t.Errorf("got %+v, want %+v", after, before)
		}
	})
	t.Run("the command line exits with 4", func(t *testing.T) {
		code, stdout, stderr := n.cli("ack", lease)
		if code != 4 {
			t.Errorf("exit code %d, want 4: %s%s", code, stdout, stderr)
		}
		wantParts(t, stderr, "lease")
	})
}

// TestFaultsAtBoot starts nodes that must refuse to run.
func TestFaultsAtBoot(t *testing.T) {
	// refuse runs a node that must end by itself.
	refuse := func(t *testing.T, dir, addr string, code int, parts ...string) {
		t.Helper()
		p := launchNode(t, dir, addr)
		if got := p.wait(10 * time.Second); got != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
		wantParts(t, p.out.String(), parts...)
	}
	t.Run("a database of a newer version", func(t *testing.T) {
		n := serve(t, t.TempDir())
		n.terminate()
		path := n.databasePath()
		if _, err := openDatabase(t, path).Exec("PRAGMA user_version = 9999"); err != nil {
			t.Fatal(err)
		}
		refuse(t, n.dir, freeAddr(t), 6, "newer")
	})
	for name, content := range map[string]string{"no database": strings.Repeat("not a database. ", 512), "another program's database": ""} {
		t.Run(name, func(t *testing.T) {
			n := serve(t, t.TempDir())
			n.terminate()
			path := n.databasePath()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			if content != "" {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if _, err := openDatabase(t, path).Exec("create table theirs(a)"); err != nil {
				t.Fatal(err)
			}
			refuse(t, n.dir, freeAddr(t), 6, "not a holdfast database")
		})
	}
	t.Run("a directory in use", func(t *testing.T) {
		n := serve(t, t.TempDir())
		refuse(t, n.dir, freeAddr(t), 4, n.dir, "another process")
		n.enqueue(client.Spec{Queue: "q"}) // the first is not disturbed
	})
	t.Run("a port in use", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		dir := t.TempDir()
		refuse(t, dir, l.Addr().String(), 1, l.Addr().String(), "--listen")
		if paths, _ := filepath.Glob(filepath.Join(dir, "*.db")); len(paths) != 0 {
			t.Errorf("a node that never served left %v", paths)
		}
	})
	t.Run("an address beyond loopback", func(t *testing.T) {
		refuse(t, t.TempDir(), "0.0.0.0:0", 2, "loopback")
	})
}

func TestFaultsOnTheCommandLine(t *testing.T) {
	n := serve(t, t.TempDir())
	nowhere := "http://" + freeAddr(t)
	tests := []struct {
		name  string
		args  []string
		code  int
		parts []string
	}{
		{"a leftover flag", []string{"enqueue", "mail", "--prioritee", "3"}, 2, []string{"prioritee"}},
		{"a leftover flag after the payload", []string{"enqueue", "mail", "{}", "--prioritee=3"}, 2, []string{"prioritee"}},
		{"an unknown command", []string{"enqeue", "mail"}, 2, []string{"enqeue", "enqueue"}},
		{"an unknown id", []string{"get", "999"}, 3, []string{"999"}},
		{"a payload that is no JSON", []string{"enqueue", "mail", "{"}, 2, []string{"JSON"}},
		{"no node", []string{"get", "1", "--url", nowhere}, 5, []string{nowhere}},
		{"an unknown suite", []string{"bench", "--suite", "htpp"}, 2, []string{"htpp", "http"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := n.cli(tt.args...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if stdout != "" {
				t.Errorf("an error on stdout: %q", stdout)
			}
			wantParts(t, stderr, tt.parts...)
		})
	}
	t.Run("a leftover flag of serve", func(t *testing.T) {
		cmd := exec.Command(binary(t), "serve", "--data", t.TempDir(), "--listne", "127.0.0.1:0")
		cmd.Env = cleanEnv()
		p := launch(t, cmd)
		if code := p.wait(10 * time.Second); code != 2 {
			t.Errorf("exit code %d, want 2", code)
		}
		wantParts(t, p.out.String(), "listne")
	})
	if jobs := n.jobsOfAllQueues(); len(jobs) != 0 {
		t.Errorf("the refused commands left %d jobs", len(jobs))
	}
}
