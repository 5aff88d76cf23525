package replicate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// RemoteOp is what was asked of the object store.
type RemoteOp string

// The operations, in the words of the rights that a key has.
const (
	RemoteGet    RemoteOp = "get"
	RemotePut    RemoteOp = "put"
	RemoteDelete RemoteOp = "delete"
	RemoteList   RemoteOp = "list"
)

// RemoteKind is why an object store did not do what it was asked.
type RemoteKind int

// The kinds. Those up to RemoteForbidden need a person; the others may pass.
const (
	RemoteOther         RemoteKind = iota
	RemoteNoBucket                 // there is no such bucket
	RemoteNoCredentials            // no key was found
	RemoteCredentials              // the key id or the secret is wrong
	RemoteRegion                   // the bucket is in another region
	RemoteClock                    // this machine's clock is wrong
	RemoteTLS                      // the certificate is not trusted, or it is no TLS
	RemoteForbidden                // the key has no right to this operation
	RemoteUnreachable              // no connection, or it broke
	RemoteThrottled                // asked to slow down
	RemoteTimeout                  // no answer in time
	RemoteServer                   // the store failed by itself
)

// remoteKinds are the names of the kinds and what is to be done about them.
var remoteKinds = map[RemoteKind]struct{ name, advice string }{
	RemoteOther:         {"other", "the object store refused the request"},
	RemoteNoBucket:      {"no_bucket", "the bucket does not exist; create it, or correct its name or the endpoint"},
	RemoteNoCredentials: {"no_credentials", "no key was found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or access-key-id and secret-access-key in litestream.yml"},
	RemoteCredentials:   {"credentials", "the key id or the secret is wrong, or the key was revoked; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or litestream.yml"},
	RemoteRegion:        {"region", "the bucket is in another region; set region in litestream.yml"},
	RemoteClock:         {"clock", "this machine's clock is wrong by minutes; set it, best by NTP"},
	RemoteTLS:           {"tls", "the endpoint's certificate is not trusted; install its CA certificate (SSL_CERT_FILE), or correct the endpoint"},
	RemoteForbidden:     {"forbidden", "the key has no right to %s; allow it in the key's policy"},
	RemoteUnreachable:   {"unreachable", "the endpoint cannot be reached; check its name, the network and the firewall"},
	RemoteThrottled:     {"throttled", "the object store asks to slow down"},
	RemoteTimeout:       {"timeout", "the object store did not answer in time"},
	RemoteServer:        {"server", "the object store has a failure of its own"},
}

// expectedRegion is how S3 names the right region in AuthorizationHeaderMalformed.
var expectedRegion = regexp.MustCompile(`expecting ["']([a-z0-9-]+)["']`)

// String returns the kind's name, as metrics and JSON have it.
func (k RemoteKind) String() string { return remoteKinds[k].name }

// RemoteError is an object store that did not do what it was asked. Its text
// says what to do about it and holds no secret.
type RemoteError struct {
	Kind RemoteKind
	Op   RemoteOp
	URL  string // of the root
	Err  error
}

// Error returns the advice with the cause.
func (e *RemoteError) Error() string {
	advice := remoteKinds[e.Kind].advice
	if strings.Contains(advice, "%s") {
		advice = fmt.Sprintf(advice, e.Op)
	}
	if e.Kind == RemoteRegion {
		if m := expectedRegion.FindStringSubmatch(fmt.Sprint(e.Err)); m != nil {
			advice = fmt.Sprintf("the bucket is in the region %s; set region: %s in litestream.yml", m[1], m[1])
		}
	}
	if e.Kind == RemoteForbidden && e.Op == RemoteGet {
		// S3 hides from such a key whether there is an object.
		advice += ", or allow it to list, without which an object that is not there looks the same"
	}
	if e.URL != "" {
		advice = e.URL + ": " + advice
	}
	return fmt.Sprintf("%s (%v)", advice, e.Err)
}

// Unwrap returns the cause.
func (e *RemoteError) Unwrap() error { return e.Err }

// remoteError gives err its kind. It leaves alone what is no fault of the store:
// an end that the caller asked for, and what has a kind already.
func remoteError(ctx context.Context, op RemoteOp, url string, err error) error {
	if err == nil {
		return nil
	}
	var already *RemoteError
	if errors.As(err, &already) {
		return err
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		var stalled *stalledError
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(cause, &stalled) {
			return &RemoteError{Kind: RemoteTimeout, Op: op, URL: url, Err: cause}
		}
		return cause
	}
	return &RemoteError{Kind: kindOf(err), Op: op, URL: url, Err: err}
}

// kindOf looks at the code that the store gave first, since the same status
// stands for many of them.
func kindOf(err error) RemoteKind {
	if kind, ok := kindOfCode(err); ok {
		return kind
	}
	if kind, ok := kindOfStatus(err); ok {
		return kind
	}
	return kindOfConnection(err)
}

func kindOfCode(err error) (RemoteKind, bool) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return RemoteOther, false
	}
	switch api.ErrorCode() {
	case "NoSuchBucket", "InvalidBucketName":
		return RemoteNoBucket, true
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired", "Unauthorized",
		"XAdminUserNotFound": // versitygw's
		return RemoteCredentials, true
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException", "InvalidRegion":
		return RemoteRegion, true
	case "RequestTimeTooSkewed", "RequestExpired":
		return RemoteClock, true
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return RemoteForbidden, true
	case "SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "BandwidthLimitExceeded":
		return RemoteThrottled, true
	case "RequestTimeout", "RequestCanceled":
		return RemoteTimeout, true
	case "InternalError":
		return RemoteServer, true
	}
	return RemoteOther, false
}

func kindOfStatus(err error) (RemoteKind, bool) {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.Response == nil {
		return RemoteOther, false
	}
	switch status := answer.HTTPStatusCode(); {
	case status == http.StatusMovedPermanently || status == http.StatusTemporaryRedirect:
		return RemoteRegion, true
	case status == http.StatusUnauthorized:
		return RemoteCredentials, true
	case status == http.StatusForbidden:
		return RemoteForbidden, true
	case status == http.StatusRequestTimeout:
		return RemoteTimeout, true
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return RemoteThrottled, true
	case status >= 500:
		return RemoteServer, true
	}
	return RemoteOther, false
}

func kindOfConnection(err error) RemoteKind {
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
		record   tls.RecordHeaderError
		network  net.Error
		send     *smithyhttp.RequestSendError
	)
	switch { // a certificate's error is a network error too, so it comes first
	case errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid),
		errors.As(err, &verify), errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return RemoteTLS
	case errors.Is(err, context.DeadlineExceeded):
		return RemoteTimeout
	case errors.As(err, &network) && network.Timeout():
		return RemoteTimeout
	case errors.Is(err, errNoCredentials):
		return RemoteNoCredentials
	case errors.As(err, &network), errors.As(err, &send):
		return RemoteUnreachable
	}
	return RemoteOther
}

// isNoKey reports whether the store said that there is no such object. That
// there is no such bucket is something else, and never read as this.
func isNoKey(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound")
}

// isCondition reports whether the store said that a condition did not hold. The
// conflict is what AWS answers when two such requests meet: neither was done.
func isCondition(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) && (api.ErrorCode() == "PreconditionFailed" || api.ErrorCode() == "ConditionalRequestConflict") {
		return true
	}
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && answer.Response != nil && answer.HTTPStatusCode() == http.StatusPreconditionFailed
}

// isNotImplemented reports whether the store said that it knows no conditions.
func isNotImplemented(err error) bool {
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && answer.Response != nil && answer.HTTPStatusCode() == http.StatusNotImplemented
}
