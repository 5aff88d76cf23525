package tests_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is a user that owns nothing here.
const nobody = 65534

func TestUser(t *testing.T) {
	if os.Geteuid() != 0 {
		code, _, stderr := run(t, exec.Command(binary(t), "serve", "--data", t.TempDir(), "--listen", freeAddr(t), "--user", "1:1"))
		if code != 2 || !strings.Contains(stderr, "only root") {
			t.Errorf("got %d, %s", code, stderr)
		}
		t.Skip("not root: nothing more to see")
	}
	serveAs := func(t *testing.T, dir, user string) *node {
		t.Helper()
		addr := freeAddr(t)
		cmd := exec.Command(binary(t), "serve", "--data", dir, "--listen", addr)
		cmd.Env = cleanEnv("HOLDFAST_USER=" + user)
		return &node{process: launch(t, cmd), url: "http://" + addr, dir: dir}
	}
	// Other users pass through the directories above.
	open := func(t *testing.T) string {
		t.Helper()
		dir, err := os.MkdirTemp("", "holdfast-user-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "data")
	}
	t.Run("root gives the directory away and is root no more", func(t *testing.T) {
		dir := open(t)
		first := serve(t, dir) // as root, whose files these are
		if code := first.terminate(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		n := serveAs(t, dir, fmt.Sprintf("%d:%d", nobody, nobody))
		n.waitReady(30 * time.Second)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "Groups:\t65534", "CapEff:\t0000000000000000"} {
			if !strings.Contains(string(status), want) {
				t.Errorf("the process has no %q", want)
			}
		}
		if code, _, stderr := n.cli("enqueue", "q", "1"); code != 0 {
			t.Errorf("enqueue: %s", stderr)
		}
		owners(t, dir)
	})
	t.Run("a fresh volume has lost+found", func(t *testing.T) {
		dir := open(t)
		if err := os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700); err != nil {
			t.Fatal(err)
		}
		serveAs(t, dir, "nobody").waitReady(30 * time.Second)
	})
	for name, tt := range map[string]struct {
		user   string
		make   func(t *testing.T, dir string)
		code   int
		reason string
	}{
		"a directory of something else is not given away": {"nobody", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, 1, "none of them is Holdfast's"},
		"nor a file that has another name elsewhere": {"nobody", func(t *testing.T, dir string) {
			secret := filepath.Join(filepath.Dir(dir), "secret")
			if err := os.WriteFile(secret, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(secret, filepath.Join(dir, "holdfast.db")); err != nil {
				t.Fatal(err)
			}
		}, 1, "another name elsewhere"},
		"a user that there is not is a wrong use": {"no-such-user", func(*testing.T, string) {}, 2, "no such user"},
		"so is half a number":                     {"12:x", func(*testing.T, string) {}, 2, "UID:GID"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := open(t)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			tt.make(t, dir)
			n := serveAs(t, dir, tt.user)
			if code := n.wait(30 * time.Second); code != tt.code || !strings.Contains(n.out.String(), tt.reason) {
				t.Errorf("got %d, want %d and %q: %s", code, tt.code, tt.reason, n.out)
			}
		})
	}
}

// owners checks that everything in a data directory is the user's alone.
func owners(t *testing.T, dir string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != nobody || st.Gid != nobody {
			t.Errorf("%s is not the user's", path)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %s", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 5 {
		t.Errorf("%d files, %v", seen, err)
	}
}
