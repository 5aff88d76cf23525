package replicate

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	bundleEnv   = "AWS_CA_BUNDLE"
	certFileEnv = "SSL_CERT_FILE"
	certDirEnv  = "SSL_CERT_DIR"
)

// Where crypto/x509 looks for the roots of a Linux system: the first of the
// files that there is, and all of the directories.
var (
	certFiles = []string{
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/ssl/cert.pem",
	}
	certDirs = []string{"/etc/ssl/certs", "/etc/pki/tls/certs"}
)

// PrepareEnvironment takes AWS_CA_BUNDLE out of the environment of this process,
// because Litestream's S3 client does not start where it is set, and has the
// certificates of that file trusted beside the system's, by way of
// SSL_CERT_FILE. Call it before anything uses TLS: the roots are read once.
//
// The variable is gone in every case. An error says that the file is not used:
// it is no file of certificates, or SSL_CERT_FILE names another. Child processes
// inherit the change, so a process that only runs commands for others should
// not call it.
func PrepareEnvironment() error {
	bundle := os.Getenv(bundleEnv)
	if err := os.Unsetenv(bundleEnv); err != nil {
		return fmt.Errorf("unset %s: %w", bundleEnv, err)
	}
	if bundle == "" {
		return nil
	}
	if other := os.Getenv(certFileEnv); other != "" {
		if samePath(bundle, other) {
			return nil
		}
		return fmt.Errorf("%s=%s is not used, because %s names another file; put the certificates into that one", bundleEnv, bundle, certFileEnv)
	}
	if err := checkBundle(bundle); err != nil {
		return fmt.Errorf("%s is not used: %w", bundleEnv, err)
	}
	return trustBundle(bundle)
}

// checkBundle returns an error if a file holds no certificate.
func checkBundle(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		return fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return nil
}

// trustBundle adds a file of certificates to the system's.
func trustBundle(bundle string) error {
	err := os.Setenv(certFileEnv, bundle)
	// SSL_CERT_FILE takes the place of the system's file. Most systems have that
	// in one of the directories, which are read as well; where it is elsewhere,
	// its directory has to be added to them.
	dir := systemCertDir()
	if os.Getenv(certDirEnv) == "" && dir != "" && !slices.Contains(certDirs, dir) {
		err = errors.Join(err, os.Setenv(certDirEnv, strings.Join(append(slices.Clone(certDirs), dir), ":")))
	}
	if err != nil {
		return fmt.Errorf("trust the certificates of %s: %w", bundle, err)
	}
	return nil
}

// systemCertDir is the directory of the file that crypto/x509 would take, or "".
func systemCertDir() string {
	for _, file := range certFiles {
		if _, err := os.Stat(file); err == nil {
			return filepath.Dir(file)
		}
	}
	return ""
}
