package node

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certLook is how often, at most, a handshake looks whether the certificate's
// files have changed.
const certLook = 5 * time.Second

// certificate serves a certificate from its files, and the new one once they
// have changed: whoever renews it need not restart the node.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time

	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex // held by the one handshake that looks at the files
	stamp  string     // of the files when current was read
	looked time.Time  // when stamp was compared last
}

// certificate opens the one that the configuration names, or returns nil.
func (c Config) certificate() (*certificate, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	cert, err := openCertificate(c.TLSCert, c.TLSKey, c.Logger)
	if err != nil {
		return nil, &ConfigError{Problems: []string{err.Error()}}
	}
	return cert, nil
}

// openCertificate reads the files.
func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log, now: time.Now}
	stamp, err := c.stampNow()
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	c.current.Store(&cert)
	c.stamp, c.looked = stamp, c.now()
	return c, nil
}

// get is for [tls.Config.GetCertificate]. Files that cannot be read, as in the
// middle of a renewal, leave the certificate that there was. While one handshake
// looks at them the others do not wait: a disk may not answer.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if !c.mu.TryLock() {
		return c.current.Load(), nil
	}
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.looked) < certLook {
		return c.current.Load(), nil
	}
	c.looked = now
	stamp, err := c.stampNow()
	if err == nil && stamp == c.stamp {
		return c.current.Load(), nil
	}
	var cert tls.Certificate
	if err == nil {
		cert, err = tls.LoadX509KeyPair(c.certFile, c.keyFile)
	}
	if err != nil {
		c.log.Warn("the certificate changed and cannot be read; the one before stays in use", "err", err)
		return c.current.Load(), nil
	}
	c.current.Store(&cert)
	c.stamp = stamp
	c.log.Info("the certificate was read anew", "until", cert.Leaf.NotAfter)
	return c.current.Load(), nil
}

// stampNow changes when a file does.
func (c *certificate) stampNow() (string, error) {
	cert, err := os.Stat(c.certFile)
	if err != nil {
		return "", fmt.Errorf("certificate: %w", err)
	}
	key, err := os.Stat(c.keyFile)
	if err != nil {
		return "", fmt.Errorf("key of the certificate: %w", err)
	}
	for _, info := range []os.FileInfo{cert, key} {
		if !info.Mode().IsRegular() { // to read a pipe may take for ever
			return "", fmt.Errorf("certificate: %s is not a file", info.Name())
		}
	}
	return fmt.Sprint(cert.ModTime().UnixNano(), cert.Size(), key.ModTime().UnixNano(), key.Size()), nil
}

// tlsConfig is for a server with the certificate.
func (c *certificate) tlsConfig() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}
}

// expiresSoon is how long before its end a certificate is worth a word.
const expiresSoon = 14 * 24 * time.Hour

// CheckCertificate looks at the files of a certificate as a node would, and at
// its end.
func CheckCertificate(certFile, keyFile string, now time.Time) Check {
	check := Check{Name: "certificate", Found: certFile}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		check.Fix = fmt.Sprintf("let this user read a certificate and the key that goes with it (%v)", err)
		return check
	}
	until := cert.Leaf.NotAfter
	check.Found = fmt.Sprintf("%s is good until %s", certFile, until.UTC().Format(time.DateOnly))
	switch left := until.Sub(now); {
	case left <= 0:
		check.Fix = "it has expired: renew it; the node takes the new files by itself"
	case left < expiresSoon:
		check.Fix = fmt.Sprintf("it ends in %d hours: renew it; the node takes the new files by itself", int(left.Hours()))
	case now.Before(cert.Leaf.NotBefore):
		check.Fix = "it is not good before " + cert.Leaf.NotBefore.UTC().Format(time.RFC3339) + ": set the clock, or get another"
	}
	check.OK = check.Fix == ""
	return check
}
