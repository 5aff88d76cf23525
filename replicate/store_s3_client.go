package replicate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/s3"
)

// attempts is how often a request is sent that may be sent again.
const attempts = 4

// resolveS3 returns a client of Litestream for path, with everything that it
// derives from the endpoint: it knows what the providers need.
func resolveS3(r Replica, path string) (*s3.ReplicaClient, error) {
	query := url.Values{}
	set := func(key, value string) {
		if value != "" {
			query.Set(key, value)
		}
	}
	set("endpoint", r.Endpoint)
	set("region", r.Region)
	if r.ForcePathStyle != nil {
		set("force-path-style", strconv.FormatBool(*r.ForcePathStyle))
	}
	if r.SkipVerify {
		set("skip-verify", "true")
	}
	if r.SignPayload != nil {
		set("sign-payload", strconv.FormatBool(*r.SignPayload))
	}
	if r.PartSize > 0 {
		set("part-size", strconv.FormatInt(r.PartSize, 10))
	}
	if r.Concurrency > 0 {
		set("concurrency", strconv.Itoa(r.Concurrency))
	}
	made, err := s3.NewReplicaClientFromURL("s3", r.Bucket, path, query, nil)
	if err != nil {
		return nil, fmt.Errorf("replica s3://%s: %w", r.Bucket, err)
	}
	c := made.(*s3.ReplicaClient)
	switch {
	case r.AccessKeyID != "":
		c.AccessKeyID, c.SecretAccessKey = r.AccessKeyID, r.SecretAccessKey
	case os.Getenv("AWS_SESSION_TOKEN") != "":
		// Litestream takes the key from the environment but not the token that
		// it is worth nothing without; the SDK's own chain takes both.
		c.AccessKeyID, c.SecretAccessKey = "", ""
	}
	return c, nil
}

// newTransport returns a transport like the one of Litestream's client.
func newTransport(skipVerify bool) *http.Transport {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	if skipVerify {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return t
}

// newRetryer retries without the SDK's budget, which an outage uses up and
// which then fails requests that would get through.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(backoff)
		o.RateLimiter = ratelimit.None
		o.Retryables = append(o.Retryables, retry.RetryableHTTPStatusCode{Codes: map[int]struct{}{
			http.StatusRequestTimeout:  {},
			http.StatusTooManyRequests: {},
		}})
	})
}

// backoff is the pause before a request is sent again. The SDK's own would be
// the whole maximum from the first time on, and somebody waits for the answer.
func backoff(attempt int, _ error) (time.Duration, error) {
	pause := 100 * time.Millisecond << min(max(attempt-1, 0), 4)
	return pause/2 + rand.N(pause/2), nil
}

// loadAWS returns the SDK's configuration with the credentials of c, or with
// those that the environment or the machine provides.
func loadAWS(ctx context.Context, c *s3.ReplicaClient, transport *http.Transport) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithRetryer(newRetryer),
		config.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: sameRequest}),
	}
	if c.AccessKeyID != "" && c.SecretAccessKey != "" {
		options = append(options, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, "")))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("settings of the AWS client: %w", err)
	}
	cfg.Credentials = aws.NewCredentialsCache(namedCredentials{cfg.Credentials})
	return cfg, nil
}

// sameRequest follows the redirects that keep a request as it is. The others come
// from a bucket in another region, where the signature would not hold.
func sameRequest(req *http.Request, via []*http.Request) error {
	status := req.Response.StatusCode
	if len(via) >= 5 || status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		return http.ErrUseLastResponse
	}
	return nil
}

// errNoCredentials is in every error of the search for a key.
var errNoCredentials = errors.New("no credentials")

// namedCredentials marks the errors of a provider, which have no type.
type namedCredentials struct{ aws.CredentialsProvider }

// Retrieve returns the provider's credentials.
func (n namedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := n.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("%w: %w", errNoCredentials, err)
	}
	return found, nil
}

// s3Options makes the SDK's client speak as Litestream's does for the same
// settings.
func s3Options(c *s3.ReplicaClient) func(*awss3.Options) {
	return func(o *awss3.Options) {
		o.UsePathStyle = c.ForcePathStyle
		o.UseARNRegion = true
		o.APIOptions = append(o.APIOptions, awsmiddleware.AddUserAgentKey("holdfast"))
		if c.Endpoint != "" {
			endpoint := c.Endpoint
			if !strings.Contains(endpoint, "://") {
				endpoint = "https://" + endpoint
			}
			o.BaseEndpoint = aws.String(endpoint)
			// Of the providers that are not AWS, many refuse the checksums
			// which the SDK adds by itself, and the encoding that carries them.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
		if c.Endpoint != "" || !c.SignPayload {
			o.APIOptions = append(o.APIOptions, withoutTrailer)
		}
		if !c.SignPayload {
			o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
		}
		if litestream.IsTigrisEndpoint(c.Endpoint) {
			// Tigris compares and swaps across its regions only when asked to.
			o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue("X-Tigris-Consistent", "true"))
		}
		if !c.SignAcceptEncoding || litestream.IsGoogleCloudStorageEndpoint(c.Endpoint) {
			o.APIOptions = append(o.APIOptions, withoutAcceptEncoding)
		}
	}
}

// withoutTrailer takes out the step that sends a body in chunks with a checksum
// behind it. Where that step is not there, nothing is to be done.
func withoutTrailer(stack *middleware.Stack) error {
	_, _ = stack.Finalize.Remove("addInputChecksumTrailer")
	return nil
}

// withoutAcceptEncoding drops a header before it is signed: Google's front end
// changes it, and the signature would no longer hold.
func withoutAcceptEncoding(stack *middleware.Stack) error {
	drop := func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if req, ok := in.Request.(*smithyhttp.Request); ok {
			req.Header.Del("Accept-Encoding")
		}
		return next.HandleFinalize(ctx, in)
	}
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("DropAcceptEncoding", drop), "Signing", middleware.Before)
}

// newS3URL names a root for people. An endpoint's user and password, which have
// no place there, are left out.
func newS3URL(r Replica) string {
	name := "s3://" + r.Bucket
	if r.Path != "" {
		name += "/" + strings.Trim(r.Path, "/")
	}
	if r.Endpoint == "" {
		return name
	}
	endpoint := r.Endpoint
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		u.User, u.RawQuery = nil, ""
		endpoint = u.String()
	}
	return name + "?endpoint=" + endpoint
}

// newS3Store builds a store for a bucket. It sends nothing.
func newS3Store(r Replica, logger *slog.Logger) (*s3Store, error) {
	path := strings.Trim(r.Path, "/")
	settings, err := resolveS3(r, path)
	if err != nil {
		return nil, err
	}
	return &s3Store{
		replica:   r,
		path:      path,
		name:      newS3URL(r),
		settings:  settings,
		logger:    logger,
		timeout:   10 * time.Second,
		transport: newTransport(settings.SkipVerify),
		region:    settings.Region,
	}, nil
}
