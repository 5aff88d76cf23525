package node_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/node"
	"holdfast/node/client"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func debugLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// raw is a connection to the node without an HTTP client.
func (n *running) raw() net.Conn {
	n.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		n.t.Fatal(err)
	}
	return conn
}

// says sends text and returns the first answer's status and the rest.
func (n *running) says(text string) (status int, rest string) {
	n.t.Helper()
	conn := n.raw()
	// A node that refuses may close before all is sent.
	_, _ = io.WriteString(conn, text)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// authorized sends a request with the admin token and returns its status.
func (n *running) authorized(method, path, body string) int {
	n.t.Helper()
	req, err := http.NewRequest(method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminSecret)
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode
}

func TestHostileConnections(t *testing.T) {
	log := &lockedBuffer{}
	n := start(t, node.WithTimeouts(node.Config{Listen: "0.0.0.0:0", AdminToken: adminSecret, Logger: debugLog(log)}, 2*time.Second, 5*time.Minute))
	head := func(extra string) string {
		return "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminSecret + "\r\n" + extra
	}
	t.Run("slow heads are cut off, and others are served meanwhile", func(t *testing.T) {
		var g errgroup.Group
		for range 200 {
			conn := n.raw()
			g.Go(func() error {
				began := time.Now()
				if _, err := io.WriteString(conn, "GET /v1/queues HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
					return err
				}
				for time.Since(began) < 45*time.Second { // a letter now and then keeps it busy
					if _, err := conn.Write([]byte("a")); err != nil {
						return nil
					}
					time.Sleep(100 * time.Millisecond)
				}
				return errors.New("a connection without a whole head is still open")
			})
		}
		for range 20 {
			if got := n.authorized("POST", "/v1/jobs", `{"queue":"mail"}`); got != http.StatusCreated {
				t.Errorf("got %d", got)
			}
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a slow body is cut off", func(t *testing.T) {
		n := start(t, node.WithTimeouts(node.Config{AdminToken: adminSecret}, 2*time.Second, 2*time.Second))
		conn := n.raw()
		if _, err := io.WriteString(conn, head("Content-Length: 1000\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("it is still waited for")
		}
		if err != nil {
			return // closed
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d", res.StatusCode)
		}
	})
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"garbage":                        {"\x16\x03\x01\x00\xa5\x01 " + adminSecret + "\r\n\r\n", 400},
		"a method that is none":          {"MARKER\x00 / HTTP/1.1\r\n\r\n", 400},
		"a head that is too large":       {head("X-Large: " + strings.Repeat("a", 200<<10) + "\r\n\r\n"), 431},
		"a body that is said to be huge": {head("Content-Length: 1000000000\r\n\r\n"), 413},
		"two lengths":                    {head("Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}"), 400},
		"a broken chunk":                 {head("Transfer-Encoding: chunked\r\n\r\nzz\r\n"), 400},
		"two hosts":                      {head("Host: y\r\n\r\n"), 400},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if got, rest := n.says(tt.text); got != tt.want {
				t.Errorf("got %d %s, want %d", got, rest, tt.want)
			}
		})
	}
	t.Run("an endless body is cut off", func(t *testing.T) {
		conn := n.raw()
		if _, err := io.WriteString(conn, head("Transfer-Encoding: chunked\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		g.Go(func() error {
			chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
			for {
				if _, err := io.WriteString(conn, chunk); err != nil {
					return nil
				}
			}
		})
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Logf("the connection was cut: %v", err)
		} else if res.Body.Close(); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("got %d", res.StatusCode)
		}
		conn.Close()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("without a token no body is read", func(t *testing.T) {
		if got, _ := n.says("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"); got != http.StatusUnauthorized {
			t.Errorf("got %d, want 401 and no 100", got)
		}
	})
	t.Run("the node lives", func(t *testing.T) {
		if got := n.authorized("GET", "/v1/queues", ""); got != 200 {
			t.Errorf("got %d", got)
		}
	})
	if text := log.String(); strings.Contains(text, adminSecret) || strings.Contains(text, "MARKER") || !strings.Contains(text, "listening") {
		t.Errorf("the log has what clients sent: %s", text)
	}
}

// TestLogsOfANode has a whole node do all kinds of things, and looks for what
// must not be in its log.
func TestLogsOfANode(t *testing.T) {
	log := &lockedBuffer{}
	n := start(t, node.Config{AdminToken: adminSecret, Logger: debugLog(log)})
	api, err := client.New(n.url, client.Options{Token: adminSecret})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ctx := t.Context()
	made, err := api.CreateToken(ctx, client.TokenRequest{Name: "w", Scopes: []string{"work"}})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{adminSecret, made.Token, "MARKER"}
	for _, end := range []string{"ack", "fail", "release", "hang up"} {
		if _, err := api.Enqueue(ctx, client.Spec{Queue: "mail", Payload: []byte(`"MARKER"`), IdempotencyKey: "MARKER" + end, Tags: map[string]string{"MARKER": "x"}}); err != nil {
			t.Fatal(err)
		}
		claims, err := api.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}, Worker: "w"})
		if err != nil || len(claims.Jobs) != 1 {
			t.Fatalf("%+v, %v", claims, err)
		}
		lease := claims.Jobs[0].Lease
		secrets = append(secrets, lease)
		switch end {
		case "ack":
			_, err = api.Ack(ctx, client.Ack{Lease: lease, Result: []byte(`"MARKER"`)})
		case "fail":
			_, err = api.Fail(ctx, client.Fail{Lease: lease, Error: "MARKER", Fatal: true})
		case "release":
			_, err = api.Release(ctx, client.Release{Lease: lease})
			if _, err := api.Claim(ctx, client.ClaimRequest{Queues: []string{"mail"}, Worker: "w"}); err != nil {
				t.Fatal(err)
			}
		case "hang up":
			_, err = api.Extend(ctx, client.Extend{Lease: lease, Progress: []byte(`"MARKER"`)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range []string{`{"queue":"MARKER!"}`, `{"MARKER":1}`, `MARKER`, `{"queue":"mail","payload":"MARKER"`} {
		if got := n.authorized("POST", "/v1/jobs", body); got != 400 {
			t.Errorf("%s: got %d", body, got)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, _ = api.Claim(short, client.ClaimRequest{Queues: []string{"mail"}, WaitMS: 10_000}) // its client hangs up
	for _, secret := range []string{made.Token + "x", ""} {
		wrong, err := client.New(n.url, client.Options{Token: secret})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wrong.Queues(ctx); !errors.Is(err, client.ErrUnauthorized) {
			t.Errorf("got %v", err)
		}
		wrong.Close()
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if !strings.Contains(text, "level=DEBUG") || !strings.Contains(text, "stopped") {
		t.Errorf("the log is not that of a whole life: %s", text)
	}
	for i, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("secret %d is in the log: %s", i, text)
		}
	}
}

// writeCertificate makes a certificate for localhost.
func writeCertificate(t *testing.T, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writeCertificate(t, dir, 1)
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	n := start(t, node.Config{AdminToken: adminSecret, TLSCert: certFile, TLSKey: keyFile})
	t.Run("the client talks HTTP/2 to it", func(t *testing.T) {
		if !strings.HasPrefix(n.url, "https://127.0.0.1:") {
			t.Fatalf("url %s", n.url)
		}
		api, err := client.New(n.url, client.Options{Token: adminSecret, TLS: &tls.Config{RootCAs: roots}})
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		if _, err := api.Enqueue(t.Context(), client.Spec{Queue: "mail"}); err != nil {
			t.Error(err)
		}
		n.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		res, err := n.client.Get(n.url + "/version")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.ProtoMajor != 2 {
			t.Errorf("got %s", res.Proto)
		}
	})
	t.Run("old versions of TLS are refused", func(t *testing.T) {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(n.url, "https://"), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}) //nolint:gosec // on purpose
		if err == nil {
			conn.Close()
			t.Error("TLS 1.1 was spoken")
		}
	})
	t.Run("plain HTTP is answered with what is wrong", func(t *testing.T) {
		res, err := http.Get("http" + strings.TrimPrefix(n.url, "https") + "/version")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("got %d", res.StatusCode)
		}
	})
	t.Run("a missing file is a configuration error", func(t *testing.T) {
		err := node.Run(t.Context(), node.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", TLSCert: certFile, TLSKey: dir + "/none.pem"})
		var config *node.ConfigError
		if !errors.As(err, &config) || !strings.Contains(err.Error(), "none.pem") {
			t.Errorf("got %v", err)
		}
	})
}

func TestCertificateIsReadAnew(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writeCertificate(t, dir, 1)
	now := time.Now()
	log := &lockedBuffer{}
	get, err := node.OpenCertificate(certFile, keyFile, debugLog(log), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	want := func(serial int64) {
		t.Helper()
		cert, err := get(nil)
		if err != nil || cert.Leaf.SerialNumber.Int64() != serial {
			t.Errorf("got %v, %v, want %d", cert.Leaf.SerialNumber, err, serial)
		}
	}
	want(1)
	writeCertificate(t, dir, 2)
	want(1) // it looks again in a while
	now = now.Add(time.Minute)
	want(2)
	if err := os.WriteFile(keyFile, []byte("half of a key, and of another length"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	want(2)
	if !strings.Contains(log.String(), "stays in use") {
		t.Errorf("log: %s", log)
	}
	writeCertificate(t, dir, 3)
	now = now.Add(time.Minute)
	want(3)
}

func TestCheckCertificate(t *testing.T) {
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1)
	for name, tt := range map[string]struct {
		in   time.Duration
		part string
	}{
		"a good one is right":        {0, ""},
		"one that ends soon is told": {20 * 24 * time.Hour, "renew it"},
		"an expired one is told":     {40 * 24 * time.Hour, "it has expired"},
		"one of the future is told":  {-48 * time.Hour, "not good before"},
	} {
		t.Run(name, func(t *testing.T) {
			c := node.CheckCertificate(certFile, keyFile, time.Now().Add(tt.in))
			if c.OK != (tt.part == "") || !strings.Contains(c.Fix, tt.part) {
				t.Errorf("got %+v", c)
			}
		})
	}
	if c := node.CheckCertificate(certFile, certFile, time.Now()); c.OK || c.Fix == "" {
		t.Errorf("got %+v", c)
	}
}

func TestBeyondLoopback(t *testing.T) {
	run := func(cfg node.Config) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		return node.Run(ctx, cfg)
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		var config *node.ConfigError
		if !errors.As(err, &config) || !strings.Contains(err.Error(), "HOLDFAST_ADMIN_TOKEN") {
			t.Errorf("got %v", err)
		}
	}
	dir := t.TempDir()
	t.Run("a node whose database has no token is refused", func(t *testing.T) {
		if err := start(t, node.Config{Data: dir}).stop(); err != nil {
			t.Fatal(err)
		}
		refused(t, run(node.Config{Data: dir, Listen: "0.0.0.0:0"}))
	})
	t.Run("one whose lost database comes back without a token is refused", func(t *testing.T) {
		for _, name := range []string{"holdfast.db", "holdfast.db-wal", "holdfast.db-shm"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		refused(t, run(node.Config{Data: dir, Listen: "0.0.0.0:0"}))
	})
	t.Run("with a token it serves, but not without one", func(t *testing.T) {
		n := start(t, node.Config{Data: dir})
		if got := n.post("/v1/tokens", `{"name":"me","scopes":["admin"]}`); got.StatusCode != http.StatusCreated {
			t.Fatalf("got %d %s", got.StatusCode, got.body)
		}
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		n = start(t, node.Config{Data: dir, Listen: "0.0.0.0:0"})
		if got := n.post("/v1/jobs", `{"queue":"mail"}`); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %d %s", got.StatusCode, got.body)
		}
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/version": 200, "/v1/node": 200} {
			res, err := n.client.Get(n.url + path)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s: got %d", path, res.StatusCode)
			}
		}
	})
	t.Run("a token that could not travel is refused", func(t *testing.T) {
		for _, secret := range []string{"two words", "line\n", "ümlaut", strings.Repeat("x", 2000)} {
			if err := (node.Config{Data: dir, AdminToken: secret}).Validate(); err == nil || strings.Contains(err.Error(), fmt.Sprintf("%.5s", secret)) {
				t.Errorf("%.10q: got %v", secret, err)
			}
		}
	})
}
