//go:build unix

package node_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"holdfast/node"
)

// TestCertificateThatIsNoFile: handshakes go on with the certificate that there
// was, whatever its file has become.
func TestCertificateThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writeCertificate(t, dir, 1)
	now := time.Now()
	log := &lockedBuffer{}
	get, err := node.OpenCertificate(certFile, keyFile, debugLog(log), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(certFile, 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	got := make(chan int64, 1)
	go func() { // ends with get, or, where the test fails, with the process
		if cert, err := get(nil); err == nil {
			got <- cert.Leaf.SerialNumber.Int64()
		}
	}()
	select {
	case serial := <-got:
		if serial != 1 {
			t.Errorf("got certificate %d", serial)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the handshake waits for a pipe")
	}
}
