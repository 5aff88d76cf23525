package replicate

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

// wantKind fails t unless err is a RemoteError of this kind without a secret.
func wantKind(t *testing.T, err error, want RemoteKind) {
	t.Helper()
	var remote *RemoteError
	if !errors.As(err, &remote) || remote.Kind != want {
		t.Fatalf("got error %v, want kind %s", err, want)
	}
	if remote.URL == "" || strings.Contains(err.Error(), s3server.SecretAccessKey) {
		t.Errorf("got %q", err)
	}
}

// mustPutFile puts an object behind the server's back.
func mustPutFile(t *testing.T, bucket, key string) {
	t.Helper()
	name := filepath.Join(bucket, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRemoteErrorOfSettings(t *testing.T) {
	srv := s3server.Start(t)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	tests := []struct {
		outcome string
		change  func(*Replica)
		want    RemoteKind
		advice  string
	}{
		{"no such bucket", func(r *Replica) { r.Bucket = "another" }, RemoteNoBucket, "does not exist"},
		{"a wrong key id", func(r *Replica) { r.AccessKeyID = "nobody" }, RemoteCredentials, "AWS_ACCESS_KEY_ID"},
		{"a wrong secret", func(r *Replica) { r.SecretAccessKey = "wrong" }, RemoteCredentials, "secret"},
		{"a wrong region", func(r *Replica) { r.Region = "mars-north-1" }, RemoteRegion, "set region: " + s3server.Region + " "},
		{"nobody listens", func(r *Replica) { r.Endpoint = "http://" + closedPort(t) }, RemoteUnreachable, "cannot be reached"},
		{"no such host", func(r *Replica) { r.Endpoint = "http://s3.invalid" }, RemoteUnreachable, "cannot be reached"},
		{"a certificate of nobody", func(r *Replica) { r.Endpoint = secure.URL }, RemoteTLS, "certificate"},
		{"TLS where there is none", func(r *Replica) { r.Endpoint = strings.Replace(srv.URL, "http:", "https:", 1) }, RemoteTLS, "endpoint"},
	}
	for _, tt := range tests {
		t.Run(tt.outcome, func(t *testing.T) {
			r := bucketOf(srv)
			tt.change(&r)
			_, err := openRoot(t, r).get(t.Context(), "lock.json")
			wantKind(t, err, tt.want)
			if !strings.Contains(err.Error(), tt.advice) {
				t.Errorf("got %q", err)
			}
		})
	}
	t.Run("no key at all", func(t *testing.T) {
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "LITESTREAM_ACCESS_KEY_ID", "LITESTREAM_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
			t.Setenv(name, "")
		}
		t.Setenv("HOME", t.TempDir())
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		r := bucketOf(srv)
		r.AccessKeyID, r.SecretAccessKey = "", ""
		_, err := openRoot(t, r).get(t.Context(), "lock.json")
		wantKind(t, err, RemoteNoCredentials)
	})
}

// closedPort returns an address that refuses connections.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestRemoteErrorOfAnswers(t *testing.T) {
	srv, s := openS3(t)
	s.timeout = 5 * time.Second
	tests := []struct {
		outcome string
		status  int
		code    string
		want    RemoteKind
	}{
		{"a clock that is wrong", 403, "RequestTimeTooSkewed", RemoteClock},
		{"no right", 403, "AccessDenied", RemoteForbidden},
		{"a token that is too old", 400, "ExpiredToken", RemoteCredentials},
		{"a bucket that moved", 301, "PermanentRedirect", RemoteRegion},
		{"a header for another region", 400, "AuthorizationHeaderMalformed", RemoteRegion},
		{"too many requests", 503, "SlowDown", RemoteThrottled},
		{"a failure of the provider", 500, "InternalError", RemoteServer},
		{"a status without a code we know", 502, "Strange", RemoteServer},
		{"a refusal without a code we know", 403, "Strange", RemoteForbidden},
		{"something else", 418, "Strange", RemoteOther},
	}
	ops := map[RemoteOp]func() error{
		RemoteGet:    func() error { _, err := s.get(t.Context(), "k"); return err },
		RemotePut:    func() error { _, err := s.put(t.Context(), "k", nil, condition{absent: true}); return err },
		RemoteDelete: func() error { return s.remove(t.Context(), "k") },
		RemoteList:   func() error { _, err := s.list(t.Context(), "k"); return err },
	}
	for _, tt := range tests {
		t.Run(tt.outcome, func(t *testing.T) {
			defer srv.Inject(s3server.Fault{Do: s3server.Answer, Status: tt.status, Code: tt.code})()
			op := RemotePut // sent once, so that no test waits for retries
			err := ops[op]()
			wantKind(t, err, tt.want)
		})
	}
	t.Run("the right that is missing is named", func(t *testing.T) {
		defer srv.Inject(s3server.Fault{Do: s3server.Answer, Status: 403})()
		for op, call := range ops {
			err := call()
			wantKind(t, err, RemoteForbidden)
			if !strings.Contains(err.Error(), "no right to "+string(op)) {
				t.Errorf("%s: got %q", op, err)
			}
		}
	})
}

func TestRemoteKinds(t *testing.T) {
	for kind := RemoteOther; kind <= RemoteServer; kind++ {
		if kind.String() == "" || remoteKinds[kind].advice == "" {
			t.Errorf("kind %d has no name or no advice", kind)
		}
	}
	if kind := kindOf(&tls.CertificateVerificationError{Err: errors.New("x")}); kind != RemoteTLS {
		t.Errorf("got %s", kind)
	}
}
