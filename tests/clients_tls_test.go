package tests_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/node/client"
)

// TestClientsOverTLS lets the clients in other languages talk to a node that
// wants a token, over https: without a token, and with one as workers whose
// claims are called back.
func TestClientsOverTLS(t *testing.T) {
	cert, key := selfSigned(t)
	secret := strings.Repeat("7c", 20)
	addr := freeAddr(t)
	cmd := exec.Command(binary(t), "serve", "--data", t.TempDir(), "--listen", addr, "--tls-cert", cert, "--tls-key", key)
	cmd.Env = cleanEnv("HOLDFAST_ADMIN_TOKEN=" + secret)
	launch(t, cmd)
	roots := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("no certificate in %s: %v", cert, err)
	}
	c, err := client.New("https://"+addr, client.Options{Token: secret, TLS: &tls.Config{RootCAs: roots}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, 30*time.Second, "the node is ready", func() bool {
		ready, err := c.Ready(t.Context())
		return err == nil && ready.Ready
	})
	env := cleanEnv("NODE_URL="+c.URL(), "NODE_TOKEN="+secret, "NODE_EXTRA_CA_CERTS="+cert, "PYTHONDONTWRITEBYTECODE=1")
	passes := func(t *testing.T, cmd *exec.Cmd) {
		t.Helper()
		cmd.Env = append(env, cmd.Env...)
		if code, stdout, stderr := run(t, cmd); code != 0 {
			t.Errorf("%s: exit code %d:\n%s%s", cmd, code, stdout, stderr)
		}
	}
	t.Run("JavaScript", func(t *testing.T) {
		node := nodeJS(t)
		lookAtClient(t, jsClient)
		passes(t, exec.Command(node, "testdata/secure.mjs"))
	})
	t.Run("Python", func(t *testing.T) {
		python := python3(t)
		lookAtClient(t, pythonClient)
		path, err := filepath.Abs(pythonClient)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "testdata/secure.py")
		cmd.Env = []string{"PYTHONPATH=" + path}
		passes(t, cmd)
	})
}

// TestClientsKnowEveryCode compares the error codes of the API with those of the
// clients in other languages.
func TestClientsKnowEveryCode(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	codes := regexp.MustCompile(`Code = "([a-z_]+)"`).FindAllStringSubmatch(read("node/client/errors.go"), -1)
	if len(codes) < 15 {
		t.Fatalf("found %d codes only", len(codes))
	}
	js, python := read("deploy/clients/js/src/errors.js"), read("deploy/clients/python/holdfast/errors.py")
	for _, found := range codes {
		code := found[1]
		if code == "too_slow" {
			continue // of the event stream, which they do not read
		}
		if !strings.Contains(js, "  "+code+": ") {
			t.Errorf("the JavaScript client does not know %s", code)
		}
		if !strings.Contains(python, `    "`+code+`": `) {
			t.Errorf("the Python client does not know %s", code)
		}
	}
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
