package tests_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// filled copies a file of deploy into a directory with words replaced.
func filled(t *testing.T, dir, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("there is no %q in %s", replace[i], name)
		}
	}
	path := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(path, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnits(t *testing.T) {
	needTool(t, "systemd-analyze")
	dir := t.TempDir()
	service := filled(t, dir, "holdfast.service", "/usr/bin/holdfast", binary(t))
	socket := filled(t, dir, "holdfast.socket")
	t.Run("systemd understands them", func(t *testing.T) {
		if out := mustRun(t, exec.Command("systemd-analyze", "verify", "--man=no", service, socket)); out != "" {
			t.Error(out)
		}
	})
	t.Run("the service is shut in", func(t *testing.T) {
		mustRun(t, exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", service))
	})
}

func TestCaddyfile(t *testing.T) {
	needTool(t, "caddy")
	env := append(cleanEnv(), "HOME="+t.TempDir())
	t.Run("caddy understands it", func(t *testing.T) {
		cmd := exec.Command("caddy", "validate", "--adapter", "caddyfile", "--config", filepath.Join(root, "deploy", "Caddyfile"))
		cmd.Env = env
		mustRun(t, cmd)
	})
	n, front := serve(t, t.TempDir()), "http://"+freeAddr(t)
	config := filled(t, t.TempDir(), "Caddyfile",
		"jobs.example.com {", "{\n\tadmin off\n}\n"+front+" {", "127.0.0.1:7780", strings.TrimPrefix(n.url, "http://"))
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", config)
	cmd.Env = env
	launch(t, cmd)
	eventually(t, 30*time.Second, "caddy passes requests on", func() bool {
		res, err := http.Get(front + "/readyz")
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
	t.Run("events are passed on at once", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, "GET", front+"/v1/events?positions_ms=1000", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := res.Body.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
	takesNothingWhenGone(t, n, front, http.DefaultTransport)
}

// takesNothingWhenGone hangs up on a claim that waits behind a proxy: the next
// job is not given to it.
func takesNothingWhenGone(t *testing.T, n *node, front string, through http.RoundTripper) {
	t.Helper()
	t.Run("a claim whose client is gone takes no job", func(t *testing.T) {
		ctx, hangUp := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer hangUp()
		r, err := http.NewRequestWithContext(ctx, "POST", front+"/v1/claims", strings.NewReader(`{"queues":["gone"],"wait_ms":20000}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := through.RoundTrip(r)
		if err == nil {
			res.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %+v, %v", res, err)
		}
		time.Sleep(500 * time.Millisecond) // for the proxy to tell the node
		job := n.enqueue(client.Spec{Queue: "gone"})
		if jobs := n.claim("gone", 1); len(jobs) != 1 || jobs[0].ID != job.ID {
			t.Errorf("the next worker gets %+v, want job %s", jobs, job.ID)
		}
	})
}

// certificate makes a self-signed one and returns the files.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jobs.example.com"}, DNSNames: []string{"jobs.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", public), write("key.pem", "PRIVATE KEY", secret)
}

func TestNginx(t *testing.T) {
	needTool(t, "nginx")
	needTool(t, "curl")
	dir, front := t.TempDir(), freeAddr(t)
	cert, key := certificate(t, dir)
	n := serve(t, t.TempDir())
	site := filled(t, dir, "nginx.conf",
		"127.0.0.1:7780", strings.TrimPrefix(n.url, "http://"), "listen 443", "listen "+front,
		"/etc/letsencrypt/live/jobs.example.com/fullchain.pem", cert, "/etc/letsencrypt/live/jobs.example.com/privkey.pem", key,
		"$host;", "127.0.0.1;") // a node without tokens answers to its own name alone
	config := filepath.Join(dir, "main.conf")
	main := "daemon off;\npid " + dir + "/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	main += "include " + site + ";\n}\n"
	if os.Geteuid() == 0 {
		main = "user root;\n" + main
	}
	if err := os.WriteFile(config, []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, exec.Command("nginx", "-t", "-c", config))
	proxy := launch(t, exec.Command("nginx", "-c", config))
	curl := func(args ...string) *exec.Cmd {
		return exec.Command("curl", append([]string{"-sS", "--fail-with-body", "--cacert", cert, "--connect-to", "jobs.example.com:443:" + front}, args...)...)
	}
	eventually(t, 30*time.Second, "nginx passes requests on", func() bool {
		code, _, _ := run(t, curl("https://jobs.example.com/healthz"))
		return code == 0
	})
	t.Run("a claim waits behind it", func(t *testing.T) {
		out := mustRun(t, curl("https://jobs.example.com/v1/claims", "-d", `{"queues":["q"],"wait_ms":1500}`))
		if strings.TrimSpace(out) != `{"jobs":[]}` {
			t.Error(out)
		}
	})
	text, err := os.ReadFile(cert)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s: %v", cert, err)
	}
	secure := &tls.Config{RootCAs: roots, ServerName: "jobs.example.com"}
	takesNothingWhenGone(t, n, "https://"+front, &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true})
	if err := proxy.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// cached returns a tool that deploy/release.sh builds into the tests' cache, or
// skips the test.
func cached(t *testing.T, name, version string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(cache, "holdfast-tests", name+"-"+version, name)
	if _, err := os.Stat(exe); err != nil {
		skip(t, "%s is not built; deploy/release.sh builds it", name)
	}
	return exe
}

func TestDebianPackage(t *testing.T) {
	needTool(t, "dpkg")
	nfpm := cached(t, "nfpm", "v2.45.2")
	dir := t.TempDir()
	pack := func(version string) string {
		deb := filepath.Join(dir, "holdfast_"+version+".deb")
		cmd := exec.Command(nfpm, "package", "--config", "deploy/deb/nfpm.yaml", "--packager", "deb", "--target", deb)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "VERSION="+version, "ARCH="+runtime.GOARCH, "BINARY="+binary(t))
		mustRun(t, cmd)
		return deb
	}
	scratch := filepath.Join(dir, "root")
	for _, path := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(scratch, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(scratch, "var/lib/dpkg/status"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) string {
		t.Helper()
		// Its scripts run outside of the root, which has no shell, and are told of it.
		return mustRun(t, exec.Command("dpkg", append([]string{"--root=" + scratch, "--force-script-chrootless", "--force-not-root", "--force-confold"}, args...)...))
	}
	at := func(path string) string { return filepath.Join(scratch, path) }

	dpkg("--install", pack("1.0.0"))
	if out := dpkg("--verify", "holdfast"); out != "" {
		t.Errorf("verify: %s", out)
	}
	if out := mustRun(t, exec.Command(at("usr/bin/holdfast"), "version")); !strings.HasPrefix(out, "holdfast ") {
		t.Errorf("version: %s", out)
	}
	env := at("etc/holdfast/holdfast.env")
	if info, err := os.Stat(env); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the settings, which hold secrets: %v, %v", info, err)
	}
	// Data and settings as a user has them.
	data := at("var/lib/holdfast")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	n := serve(t, data)
	if code, _, stderr := n.cli("enqueue", "q", "1"); code != 0 {
		t.Fatal(stderr)
	}
	if code := n.terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if err := os.WriteFile(env, []byte("HOLDFAST_LISTEN=127.0.0.1:1234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := func(when string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(data, "holdfast.db")); err != nil {
			t.Errorf("%s the jobs are gone: %v", when, err)
		}
		if text, err := os.ReadFile(env); when != "after the purge" && (err != nil || !strings.Contains(string(text), "1234")) {
			t.Errorf("%s the settings are gone: %q, %v", when, text, err)
		}
	}
	dpkg("--install", pack("1.1.0"))
	kept("after the upgrade")
	if out := mustRun(t, exec.Command("dpkg-query", "--admindir="+at("var/lib/dpkg"), "-W", "-f", "${Version} ${Status}", "holdfast")); out != "1.1.0 install ok installed" {
		t.Errorf("after the upgrade: %s", out)
	}
	dpkg("--remove", "holdfast")
	kept("after the removal")
	if _, err := os.Stat(at("usr/bin/holdfast")); err == nil {
		t.Error("the program is still there")
	}
	if out := dpkg("--purge", "holdfast"); !strings.Contains(out, "the jobs are still in /var/lib/holdfast") {
		t.Errorf("the purge does not say where the jobs are: %s", out)
	}
	kept("after the purge")
	again := serve(t, data)
	if code, out, _ := again.cli("list", "--queue", "q", "--json"); code != 0 || !strings.Contains(out, `"id":"1"`) {
		t.Errorf("the job: %s", out)
	}
}
