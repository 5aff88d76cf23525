package replicate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/s3"
)

// maxObject is the most that get reads, in bytes; what it is for is far smaller.
const maxObject = 16 << 20

// s3Store is a root in a bucket.
type s3Store struct {
	replica   Replica
	path      string // of the root in the bucket, without slashes around it
	name      string // for people
	settings  *s3.ReplicaClient
	logger    *slog.Logger
	timeout   time.Duration // of one request for a small object
	transport *http.Transport
	counted   counter

	mu     sync.Mutex
	api    *awss3.Client // nil before the first request
	region string        // "" before it was asked for
}

func (s *s3Store) url() string { return s.name }

func (s *s3Store) requests() *counter { return &s.counted }

func (s *s3Store) close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// key returns the place of a relative key in the bucket.
func (s *s3Store) key(relative string) string {
	if s.path == "" {
		return relative
	}
	return s.path + "/" + relative
}

func (s *s3Store) client(prefix string) (litestream.ReplicaClient, error) {
	c, err := resolveS3(s.replica, s.key(strings.Trim(prefix, "/")))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	c.Region = s.region // spares it the question, if it was asked before
	s.mu.Unlock()
	c.SetLogger(s.logger)
	return c, nil
}

// connect returns the SDK's client. For a bucket at AWS without a region in the
// settings it first asks where the bucket is.
func (s *s3Store) connect(ctx context.Context) (*awss3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.api != nil {
		return s.api, nil
	}
	cfg, err := loadAWS(ctx, s.settings, s.transport)
	if err != nil {
		return nil, err
	}
	cfg.Region = s3.DefaultRegion
	if s.region == "" && s.settings.Endpoint == "" {
		out, err := awss3.NewFromConfig(cfg, s3Options(s.settings)).GetBucketLocation(
			s.counted.trace(ctx, requestGet), &awss3.GetBucketLocationInput{Bucket: &s.settings.Bucket})
		if err != nil {
			return nil, fmt.Errorf("look up the region of the bucket: %w", err)
		}
		s.region = string(out.LocationConstraint) // "" is the default one
	}
	if s.region == "" {
		s.region = s3.DefaultRegion
	}
	cfg.Region = s.region
	s.api = awss3.NewFromConfig(cfg, s3Options(s.settings))
	return s.api, nil
}

// call runs one request of a kind with a deadline of its own.
func (s *s3Store) call(ctx context.Context, op RemoteOp, kind requestKind, request func(context.Context, *awss3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	api, err := s.connect(ctx)
	if err == nil {
		err = request(s.counted.trace(ctx, kind), api)
	}
	return remoteError(ctx, op, s.name, err)
}

func (s *s3Store) get(ctx context.Context, key string) (object, error) {
	var got object
	err := s.call(ctx, RemoteGet, requestGet, func(ctx context.Context, api *awss3.Client) error {
		out, err := api.GetObject(ctx, &awss3.GetObjectInput{Bucket: &s.settings.Bucket, Key: aws.String(s.key(key))})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		data, err := io.ReadAll(io.LimitReader(out.Body, maxObject+1))
		if err != nil {
			return err
		}
		if len(data) > maxObject {
			return fmt.Errorf("more than %d bytes", maxObject)
		}
		if aws.ToString(out.ETag) == "" {
			return errNoETag
		}
		got = object{data: data, version: *out.ETag}
		return nil
	})
	if isNoKey(err) {
		err = errNoObject
	}
	if err != nil {
		return object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return got, nil
}

// put never sends a conditional request twice: were the first answer lost, the
// second would say that the condition does not hold, because of our own success.
// (Go's transport sends a PUT again only if nothing of it was written.)
func (s *s3Store) put(ctx context.Context, key string, data []byte, cond condition) (string, error) {
	in := s.input(key, data)
	in.ContentType = aws.String("application/json")
	var options []func(*awss3.Options)
	if cond != (condition{}) {
		options = append(options, func(o *awss3.Options) { o.Retryer = aws.NopRetryer{} })
	}
	if cond.absent {
		in.IfNoneMatch = aws.String("*")
	}
	if cond.version != "" {
		in.IfMatch = aws.String(cond.version)
	}
	return s.send(ctx, key, in, options...)
}

// putLTX writes a file of Litestream's as its client would, but only where none
// is; else it returns errCondition. It may be sent twice, so errCondition may
// come of its own success: the caller compares.
func (s *s3Store) putLTX(ctx context.Context, key string, data []byte, created time.Time) error {
	in := s.input(key, data)
	in.IfNoneMatch = aws.String("*")
	in.Metadata = map[string]string{s3.MetadataKeyTimestamp: created.Format(time.RFC3339Nano)}
	_, err := s.send(ctx, key, in)
	return err
}

// input returns a request for key without a condition.
func (s *s3Store) input(key string, data []byte) *awss3.PutObjectInput {
	in := &awss3.PutObjectInput{
		Bucket:        &s.settings.Bucket,
		Key:           aws.String(s.key(key)),
		Body:          bytes.NewReader(data),
		ContentLength: aws.Int64(int64(len(data))),
	}
	if s.settings.StorageClass != "" {
		in.StorageClass = types.StorageClass(s.settings.StorageClass)
	}
	if s.settings.SSEKMSKeyID != "" {
		in.ServerSideEncryption = types.ServerSideEncryptionAwsKms
		in.SSEKMSKeyId = aws.String(s.settings.SSEKMSKeyID)
	}
	return in
}

// send sends a put and returns the version that it made.
func (s *s3Store) send(ctx context.Context, key string, in *awss3.PutObjectInput, options ...func(*awss3.Options)) (string, error) {
	var version string
	err := s.call(ctx, RemotePut, requestPut, func(ctx context.Context, api *awss3.Client) error {
		out, err := api.PutObject(ctx, in, options...)
		if err != nil {
			return err
		}
		version = aws.ToString(out.ETag)
		if version == "" {
			return errNoETag
		}
		return nil
	})
	if isCondition(err) || in.IfMatch != nil && isNoKey(err) {
		err = errCondition
	}
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return version, nil
}

func (s *s3Store) remove(ctx context.Context, key string) error {
	err := s.call(ctx, RemoteDelete, requestDelete, func(ctx context.Context, api *awss3.Client) error {
		_, err := api.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.settings.Bucket, Key: aws.String(s.key(key))})
		return err
	})
	if err != nil && !isNoKey(err) {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

// list asks for one page after the other, each with a deadline of its own.
func (s *s3Store) list(ctx context.Context, prefix string) ([]entry, error) {
	var found []entry
	in := &awss3.ListObjectsV2Input{Bucket: &s.settings.Bucket, Prefix: aws.String(s.key(prefix))}
	for {
		var out *awss3.ListObjectsV2Output
		err := s.call(ctx, RemoteList, requestList, func(ctx context.Context, api *awss3.Client) (err error) {
			out, err = api.ListObjectsV2(ctx, in)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
		for _, o := range out.Contents {
			found = append(found, entry{
				key:  strings.TrimPrefix(aws.ToString(o.Key), s.key("")),
				size: aws.ToInt64(o.Size),
			})
		}
		if !aws.ToBool(out.IsTruncated) {
			return found, nil
		}
		if aws.ToString(out.NextContinuationToken) == "" {
			return nil, fmt.Errorf("list %s: %w", prefix, errCutList)
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

var (
	errNoETag  = errors.New("the provider named no version (ETag) of the object")
	errCutList = errors.New("the provider cut the list and did not say how to go on")
)
