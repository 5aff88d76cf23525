package replicate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"holdfast/replicate"
)

// TestPrepareEnvironment runs each case in a process of its own, because the
// roots are read once and the environment is everybody's.
func TestPrepareEnvironment(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_CHILD") != "" {
		prepared()
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("other systems keep their roots elsewhere")
	}
	dir := t.TempDir()
	server, bundle := tlsServer(t, dir, "bundle.pem")
	other, systemDir := tlsServer(t, dir, "system/root.pem")
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	system := "SSL_CERT_DIR=" + filepath.Dir(systemDir)
	tests := []struct {
		name string
		env  []string
		want string
	}{
		{"nothing is set and nothing changes", nil, "bundle= file= err=<nil> tls=no,no"},
		{"the bundle is trusted beside the system's roots", []string{"AWS_CA_BUNDLE=" + bundle, system}, "bundle= file=" + bundle + " err=<nil> tls=yes,yes"},
		{"the bundle is trusted with no roots of the system", []string{"AWS_CA_BUNDLE=" + bundle}, "bundle= file=" + bundle + " err=<nil> tls=yes,no"},
		{"SSL_CERT_FILE of the same file stays", []string{"AWS_CA_BUNDLE=" + bundle, "SSL_CERT_FILE=" + bundle}, "bundle= file=" + bundle + " err=<nil> tls=yes,no"},
		{"SSL_CERT_FILE of another file wins, and it is said", []string{"AWS_CA_BUNDLE=" + bundle, "SSL_CERT_FILE=" + systemDir}, "bundle= file=" + systemDir + " err=AWS_CA_BUNDLE=" + bundle + " is not used, because SSL_CERT_FILE names another file"},
		{"a file without certificates is not trusted, and it is said", []string{"AWS_CA_BUNDLE=" + junk}, "bundle= file= err=AWS_CA_BUNDLE is not used: " + junk + " holds no certificate"},
		{"a file that is not there is said", []string{"AWS_CA_BUNDLE=" + dir + "/none"}, "bundle= file= err=AWS_CA_BUNDLE is not used: open "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestPrepareEnvironment$", "-test.v=false")
			for _, v := range os.Environ() {
				if !strings.HasPrefix(v, "SSL_CERT_") && !strings.HasPrefix(v, "AWS_") {
					cmd.Env = append(cmd.Env, v)
				}
			}
			cmd.Env = append(append(cmd.Env, test.env...), "HOLDFAST_TEST_CHILD="+server.URL+","+other.URL)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got := string(out); !strings.Contains(got, test.want) {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}

// prepared is the child: it prints what became of its environment, and which
// servers it trusts.
func prepared() {
	err := replicate.PrepareEnvironment()
	var trusts []string
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{ServerName: "example.com"}}}
	for url := range strings.SplitSeq(os.Getenv("HOLDFAST_TEST_CHILD"), ",") {
		answer := "no"
		if resp, err := client.Get(url); err == nil {
			resp.Body.Close()
			answer = "yes"
		}
		trusts = append(trusts, answer)
	}
	fmt.Printf("bundle=%s file=%s err=%v tls=%s\n", os.Getenv("AWS_CA_BUNDLE"), os.Getenv("SSL_CERT_FILE"), err, strings.Join(trusts, ","))
}

// tlsServer runs a server with a root of its own, which is written to a file.
func tlsServer(t *testing.T, dir, name string) (s *httptest.Server, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	s = httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the point
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, file
}
