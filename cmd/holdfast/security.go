package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"holdfast/node"
	"holdfast/replicate"
)

// adminTokenVar is the one way to give the admin token itself: a flag would
// show it to every user of the machine.
const adminTokenVar = "HOLDFAST_ADMIN_TOKEN" //nolint:gosec // its name

// serverSecurityFlags are those of a node that others reach.
func serverSecurityFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "admin-token-file", EnvVars: []string{"HOLDFAST_ADMIN_TOKEN_FILE"}, Usage: "a `FILE` with the admin token; or set " + adminTokenVar},
		&cli.StringFlag{Name: "tls-cert", EnvVars: []string{"HOLDFAST_TLS_CERT"}, Usage: "a `FILE` with the certificate and its chain, for https"},
		&cli.StringFlag{Name: "tls-key", EnvVars: []string{"HOLDFAST_TLS_KEY"}, Usage: "a `FILE` with the certificate's key"},
	}
}

func tokenFlag() cli.Flag {
	return &cli.StringFlag{Name: "token", EnvVars: []string{"HOLDFAST_TOKEN"}, Usage: "access token to send; better as the variable, as others see flags"}
}

func caFlag() cli.Flag {
	return &cli.StringFlag{Name: "tls-ca", EnvVars: []string{"HOLDFAST_TLS_CA"}, Usage: "a `FILE` with the certificates to trust besides the system's"}
}

// adminToken returns the admin token, or "".
func adminToken(c *cli.Context) (string, error) {
	token := strings.TrimSpace(os.Getenv(adminTokenVar))
	path := c.String("admin-token-file")
	if path == "" {
		return token, nil
	}
	if token != "" {
		return "", usagef("%s and --admin-token-file are both set; take one away", adminTokenVar)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("--admin-token-file: %v", err)
	}
	if token = strings.TrimSpace(string(text)); token == "" {
		return "", usagef("--admin-token-file: %s is empty; write a secret into it, such as that of openssl rand -hex 32", path)
	}
	return token, nil
}

// tokenFor returns the token for the node at rawURL. A command on the node's
// own machine may find the admin token in its environment; it goes nowhere else.
func tokenFor(c *cli.Context, rawURL string) string {
	if token := strings.TrimSpace(c.String("token")); token != "" {
		return token
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() || u.Hostname() == "localhost" {
		return strings.TrimSpace(os.Getenv(adminTokenVar))
	}
	return ""
}

// trust returns the settings for https, or nil for the system's.
func trust(c *cli.Context) (*tls.Config, error) {
	path := c.String("tls-ca")
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--tls-ca: %v", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, usagef("--tls-ca: there is no certificate in %s", path)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// secretSetting shows that a secret is set, and from where, but not what it is.
func secretSetting() replicate.Setting {
	s := replicate.Setting{Name: "admin-token", Origin: "default"}
	if strings.TrimSpace(os.Getenv(adminTokenVar)) != "" {
		s.Value, s.Origin = "…", "env "+adminTokenVar
	}
	return s
}

// lookAtSecurity checks what keeps strangers out. A node that runs has started,
// and so has what it needs.
func lookAtSecurity(c *cli.Context, runs bool, now time.Time) []node.Check {
	checks := []node.Check{checkAdminToken(c, runs)}
	if cert, key := c.String("tls-cert"), c.String("tls-key"); cert != "" || key != "" {
		checks = append(checks, node.CheckCertificate(cert, key, now))
	}
	return checks
}

func checkAdminToken(c *cli.Context, runs bool) node.Check {
	check := node.Check{Name: "access", OK: true, Found: c.String("listen") + " is reached by this machine alone"}
	token, err := adminToken(c)
	beyond := node.BeyondLoopback(c.String("listen"))
	if beyond {
		check.Found = c.String("listen") + " is reached from other machines"
	}
	switch {
	case err != nil:
		check.Fix = err.Error()
	case token != "" && len(token) < node.StrongSecret:
		check.Found += fmt.Sprintf("; the admin token has %d characters", len(token))
		check.Fix = "take one that nobody can guess: openssl rand -hex 32"
	case token != "":
		check.Found += "; the admin token is set"
	case beyond && !runs && !node.HasTokens(c.Context, c.String("data")):
		check.Fix = "there is no access token, so a node would not start: set " + adminTokenVar
	}
	check.OK = check.Fix == ""
	return check
}
