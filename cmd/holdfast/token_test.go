package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"holdfast/node/client"
)

func TestTokenCommands(t *testing.T) {
	s := startNode(t)
	t.Run("the first one must administer", func(t *testing.T) {
		code, _, stderr := s.run("token", "create", "w", "--scope", "work")
		if code != exitUsage {
			t.Errorf("got exit code %d", code)
		}
		wantText(t, stderr, "must have the scope admin")
		if code, _, stderr = s.run("token", "create", "w"); code != exitUsage {
			t.Errorf("got exit code %d", code)
		}
		wantText(t, stderr, "at least one --scope: enqueue, work")
	})
	admin := strings.TrimSpace(s.ok("token", "create", "me", "--scope", "admin", "--quiet"))
	if !regexp.MustCompile(`^hf_[a-z2-7]{40}$`).MatchString(admin) {
		t.Fatalf("the secret is %q", admin)
	}
	t.Run("without it nothing works any more", func(t *testing.T) {
		code, _, stderr := s.run("queues")
		if code != exitUnreachable {
			t.Errorf("got exit code %d", code)
		}
		wantText(t, stderr, "HOLDFAST_TOKEN")
	})
	t.Run("a flag, the variable or the admin variable of this machine gives it", func(t *testing.T) {
		s.ok("queues", "--token", admin)
		s.ok("--token", admin, "queues")
		for _, name := range []string{"HOLDFAST_TOKEN", adminTokenVar} {
			t.Run(name, func(t *testing.T) {
				t.Setenv(name, admin)
				s.ok("queues")
			})
		}
	})
	t.Setenv("HOLDFAST_TOKEN", admin)
	var made client.Token
	s.read(&made, "token", "create", "shop", "--scope", "enqueue", "--scope", "view", "--queue", "mail*", "--expires", "90d")
	t.Run("a list has all but the secret", func(t *testing.T) {
		out := s.ok("token", "list")
		wantText(t, out, `(?m)^2 +shop +hf_\w{8}… +enqueue,view +mail\* +now +ends in 90d$`, `(?m)^1 +me +hf_.* admin +\* .* good$`)
		if strings.Contains(out, made.Token) {
			t.Errorf("the secret is in %s", out)
		}
	})
	t.Run("one is revoked by its name or id", func(t *testing.T) {
		s.ok("token", "revoke", "shop")
		wantText(t, s.ok("token", "list"), `(?m)^2 +shop .* revoked now$`)
		s.ok("token", "create", "shop", "--scope", "view")
		s.ok("token", "revoke", "3")
		code, _, stderr := s.run("token", "revoke", "nobody")
		if code != exitNotFound {
			t.Errorf("got exit code %d", code)
		}
		wantText(t, stderr, "no such access token")
		code, _, stderr = s.run("token", "create", "me", "--scope", "view")
		if code != exitConflict {
			t.Errorf("got exit code %d: %s", code, stderr)
		}
	})
	t.Run("the audit trail tells", func(t *testing.T) {
		wantText(t, s.ok("audit"), `(?m)^1 .* local +127.0.0.1 +token.create +me +1`, `(?m)^3 .* me +127.0.0.1 +token.revoke +shop`)
		var page client.AuditPage
		s.read(&page, "audit", "--limit", "1")
		if len(page.Entries) != 1 || page.Next == nil {
			t.Errorf("got %+v", page)
		}
		s.read(&page, "audit", "--limit", "1", "--after", "2")
		if len(page.Entries) != 1 || page.Entries[0].ID != "1" || page.Next == nil {
			t.Errorf("got %+v", page)
		}
	})
}

func TestAdminTokenOfServe(t *testing.T) {
	s := &shell{t: t}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, empty := write("good", "secret-of-a-file\n"), write("empty", " \n")
	for name, tt := range map[string]struct {
		variable string
		args     []string
		want     string
	}{
		"an empty file":     {"", []string{"--admin-token-file", empty}, "is empty"},
		"a missing file":    {"", []string{"--admin-token-file", dir + "/none"}, "no such file"},
		"both":              {"x", []string{"--admin-token-file", good}, "both set"},
		"a blank variable":  {" ", []string{"--listen", "0.0.0.0:0"}, "no access token yet"},
		"half a pair":       {"", []string{"--tls-cert", good}, "go together"},
		"no certificate":    {"", []string{"--tls-cert", good, "--tls-key", good}, "certificate"},
		"a secret of words": {"two words", nil, "admin token"},
	} {
		t.Run(name+" is a usage error", func(t *testing.T) {
			t.Setenv(adminTokenVar, tt.variable)
			code, _, stderr := s.run(append([]string{"serve", "--data", filepath.Join(dir, "data")}, tt.args...)...)
			if code != exitUsage {
				t.Errorf("got exit code %d", code)
			}
			wantText(t, stderr, tt.want)
		})
	}
	t.Run("config show says where it comes from, and no more", func(t *testing.T) {
		t.Setenv(adminTokenVar, "hunter2")
		t.Setenv("HOLDFAST_TLS_CERT", good)
		out := s.ok("config", "show", "--origin", "--data", dir)
		wantText(t, out, `(?m)^admin-token +… +env HOLDFAST_ADMIN_TOKEN$`, `(?m)^tls-cert +\S+good +env HOLDFAST_TLS_CERT$`)
		if strings.Contains(out, "hunter2") {
			t.Errorf("the secret is in %s", out)
		}
	})
	t.Run("doctor tells what would not start", func(t *testing.T) {
		t.Setenv(adminTokenVar, "")
		data := t.TempDir()
		code, out, _ := s.run("doctor", "--data", data, "--listen", "0.0.0.0:7780")
		if code != exitFailed {
			t.Errorf("got exit code %d", code)
		}
		wantText(t, out, `(?m)^access +FAIL .*set HOLDFAST_ADMIN_TOKEN`)
		t.Setenv(adminTokenVar, strings.Repeat("x", 32))
		wantText(t, s.ok("doctor", "--data", data, "--listen", "0.0.0.0:7780"), `(?m)^access +ok .*the admin token is set`)
		code, out, _ = s.run("doctor", "--data", data, "--tls-cert", good, "--tls-key", good)
		if code != exitFailed {
			t.Errorf("got exit code %d", code)
		}
		wantText(t, out, `(?m)^certificate +FAIL`)
	})
}

// TestAdminTokenStaysHere: the admin token of the environment goes to the node
// on this machine alone.
func TestAdminTokenStaysHere(t *testing.T) {
	t.Setenv(adminTokenVar, "secret")
	got := map[string]string{}
	c := cli.NewContext(newApp(nil, io.Discard, io.Discard), flag.NewFlagSet("", flag.ContinueOnError), nil)
	for _, url := range []string{"http://127.0.0.1:7780", "https://localhost:1", "http://[::1]:7780", "http://127.0.0.1.evil.example", "https://jobs.example.com", "http://10.0.0.1:7780"} {
		got[url] = tokenFor(c, url)
	}
	for url, token := range got {
		here := strings.Contains(url, "//127.0.0.1:") || strings.Contains(url, "localhost") || strings.Contains(url, "::1")
		if (token != "") != here {
			t.Errorf("%s gets %q", url, token)
		}
	}
}
