package tests_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// builder runs buildah with a storage of its own, without a daemon.
type builder struct {
	t    *testing.T
	dir  string
	args []string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	needTool(t, "buildah")
	if os.Geteuid() != 0 {
		skip(t, "buildah needs root for the isolation by chroot")
	}
	dir := t.TempDir()
	return &builder{t, dir, []string{"--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs"}}
}

func (b *builder) command(args ...string) *exec.Cmd {
	cmd := exec.Command("buildah", append(slices.Clone(b.args), args...)...)
	cmd.Dir = root
	cmd.Env = append(cleanEnv(), "BUILDAH_ISOLATION=chroot", "TMPDIR="+b.dir)
	return cmd
}

func (b *builder) ok(args ...string) string {
	b.t.Helper()
	return strings.TrimSpace(mustRun(b.t, b.command(args...)))
}

// image builds deploy/Dockerfile and returns a container of it. What its first
// stage compiles, which needs an image with Go from elsewhere, is replaced by the
// binary under test.
func (b *builder) image() string {
	b.t.Helper()
	certs := "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(certs); err != nil {
		skip(b.t, "there are no certificates: %v", err)
	}
	stage := b.ok("from", "scratch")
	b.ok("copy", "-q", stage, binary(b.t), "/out/holdfast")
	b.ok("copy", "-q", stage, certs, "/out/ca-certificates.crt")
	empty := filepath.Join(b.dir, "tmp")
	if err := os.Mkdir(empty, 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Chmod(empty, 0o777|fs.ModeSticky); err != nil {
		b.t.Fatal(err)
	}
	b.ok("copy", "-q", stage, empty, "/out/tmp")
	b.ok("commit", "-q", stage, "localhost/compiled")
	b.ok("build", "-q", "--pull-never", "--build-context", "build=container-image://localhost/compiled",
		"-f", "deploy/Dockerfile", "-t", "localhost/holdfast", ".")
	return b.ok("from", "--pull-never", "localhost/holdfast")
}

func TestImage(t *testing.T) {
	b := newBuilder(t)
	c := b.image()
	t.Run("it holds the binary, certificates and settings alone", func(t *testing.T) {
		mounted := b.ok("mount", c)
		var files []string
		if err := filepath.WalkDir(mounted, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, strings.TrimPrefix(path, mounted))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		want := []string{"/etc/holdfast/litestream.yml", "/etc/ssl/certs/ca-certificates.crt", "/usr/bin/holdfast"}
		if !slices.Equal(files, want) {
			t.Errorf("got %v, want %v", files, want)
		}
		b.ok("umount", c)
	})
	t.Run("its command serves, as a user that is not root, and stops cleanly", func(t *testing.T) {
		config := b.ok("inspect", "--type", "container", "--format", "{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}", c)
		if config != "[/usr/bin/holdfast] [serve]" {
			t.Errorf("it runs %s", config)
		}
		addr := freeAddr(t)
		cmd := b.command("run", "--env", "HOLDFAST_LISTEN="+addr, c, "--", "/usr/bin/holdfast", "serve")
		n := &node{process: launch(t, cmd), url: "http://" + addr}
		t.Cleanup(func() { // what runs in the container outlives a buildah that is killed
			if pid := n.inside(); pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
		n.waitReady(60 * time.Second)
		if code, _, stderr := n.cli("enqueue", "q", "1"); code != 0 {
			t.Error(stderr)
		}
		pid := n.inside()
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(status), "Uid:\t10001\t10001\t10001\t10001") {
			t.Errorf("it runs as %s, %v", status, err)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := n.wait(60 * time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("its settings are read", func(t *testing.T) {
		out := b.ok("run", "--env", "BUCKET_NAME=b", "--env", "AWS_ENDPOINT_URL_S3=https://s3.example.com", c, "--",
			"/usr/bin/holdfast", "config", "show", "--config", "/etc/holdfast/litestream.yml")
		if !strings.Contains(out, "/data") || !strings.Contains(out, "https://s3.example.com") {
			t.Error(out)
		}
	})
}

// inside returns the process id of the node in the container, or 0.
func (n *node) inside() int {
	n.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		n.t.Fatal(err)
	}
	addr := strings.TrimPrefix(n.url, "http://")
	for _, dir := range all {
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may be gone
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if string(line) == "/usr/bin/holdfast\x00serve\x00" && strings.Contains(string(env), "HOLDFAST_LISTEN="+addr+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				n.t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}
