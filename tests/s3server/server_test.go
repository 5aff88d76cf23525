package s3server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"holdfast/tests/s3server"
)

// bucket is a client of a server that sends everything once.
type bucket struct {
	t   *testing.T
	srv *s3server.Server
	api *s3.Client
}

func start(t *testing.T) bucket {
	srv := s3server.Start(t)
	api := s3.New(s3.Options{
		BaseEndpoint:               aws.String(srv.URL),
		Region:                     s3server.Region,
		UsePathStyle:               true,
		Credentials:                credentials.NewStaticCredentialsProvider(s3server.AccessKeyID, s3server.SecretAccessKey, ""),
		Retryer:                    aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	return bucket{t, srv, api}
}

// put puts an object, where first says so only if there is none.
func (b bucket) put(key, data string, first bool) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
	defer cancel()
	in := &s3.PutObjectInput{Bucket: &b.srv.Bucket, Key: &key, Body: strings.NewReader(data)}
	if first {
		in.IfNoneMatch = aws.String("*")
	}
	_, err := b.api.PutObject(ctx, in)
	return err
}

func (b bucket) get(key string) (string, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Second)
	defer cancel()
	out, err := b.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.srv.Bucket, Key: &key})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	data, err := io.ReadAll(out.Body)
	return string(data), err
}

// stored returns an object as the server has it.
func (b bucket) stored(key string) string {
	data, err := os.ReadFile(filepath.Join(b.srv.Dir, key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(data)
}

// wantStatus fails the test unless err is an answer of this status; 0 is for no
// answer at all.
func wantStatus(t *testing.T, err error, want int) {
	t.Helper()
	var answer *awshttp.ResponseError
	got := 0
	if errors.As(err, &answer) {
		got = answer.HTTPStatusCode()
	}
	if err == nil || got != want {
		t.Fatalf("got status %d, %v; want %d", got, err, want)
	}
}

func TestFaults(t *testing.T) {
	b := start(t)
	if err := b.put("there", "0123456789", false); err != nil {
		t.Fatal(err)
	}
	t.Run("without a fault requests get through", func(t *testing.T) {
		if got, err := b.get("there"); err != nil || got != "0123456789" {
			t.Errorf("got %q, %v", got, err)
		}
		wantStatus(t, b.put("there", "x", true), http.StatusPreconditionFailed)
	})
	tests := []struct {
		outcome string
		fault   s3server.Fault
		status  int
		stored  string
	}{
		{"an answer comes without the server", s3server.Fault{Do: s3server.Answer, Status: 503}, 503, ""},
		{"a cut before is not stored", s3server.Fault{Do: s3server.CutBefore}, 0, ""},
		{"a cut after is stored", s3server.Fault{Do: s3server.CutAfter}, 0, "new"},
		{"a black hole is not stored", s3server.Fault{Do: s3server.BlackHole}, 0, ""},
		{"one that does not read neither", s3server.Fault{Do: s3server.BlackHoleBody}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.outcome, func(t *testing.T) {
			defer b.srv.Inject(tt.fault)()
			wantStatus(t, b.put("new", "new", true), tt.status)
			if got := b.stored("new"); got != tt.stored {
				t.Errorf("stored %q", got)
			}
			_ = os.Remove(filepath.Join(b.srv.Dir, "new"))
		})
	}
	t.Run("a wait is a wait", func(t *testing.T) {
		defer b.srv.Inject(s3server.Fault{Do: s3server.Wait, Delay: 100 * time.Millisecond})()
		began := time.Now()
		if _, err := b.get("there"); err != nil || time.Since(began) < 100*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
	for _, action := range []s3server.Action{s3server.Truncate, s3server.Hang} {
		t.Run("a body ends in the middle", func(t *testing.T) {
			defer b.srv.Inject(s3server.Fault{Do: action, Bytes: 4})()
			if got, err := b.get("there"); err == nil || got != "0123" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("conditions are ignored", func(t *testing.T) {
		defer b.srv.Inject(s3server.Fault{Do: s3server.Unconditional})()
		if err := b.put("there", "replaced", true); err != nil || b.stored("there") != "replaced" {
			t.Errorf("stored %q, %v", b.stored("there"), err)
		}
	})
	t.Run("down is down until it is up", func(t *testing.T) {
		up := b.srv.Down()
		_, err := b.get("there")
		wantStatus(t, err, 0)
		up()
		if _, err := b.get("there"); err != nil {
			t.Error(err)
		}
	})
}

func TestAnother(t *testing.T) {
	b := start(t)
	another := b.srv.Another(t)
	another.Down()
	if err := b.put("a", "x", true); err != nil {
		t.Errorf("the first proxy is down with the second: %v", err)
	}
	if n := len(another.Requests()); n != 0 {
		t.Errorf("the second has %d requests of the first", n)
	}
}

func TestFaultMatches(t *testing.T) {
	b := start(t)
	defer b.srv.Inject(s3server.Fault{Op: s3server.Put, Prefix: "a/", Part: ".ltx", After: 1, Times: 1, Do: s3server.Answer, Status: 500})()
	var failed []string
	for _, key := range []string{"b/1.ltx", "a/1.json", "a/1.ltx", "a/2.ltx", "a/3.ltx"} {
		if err := b.put(key, "x", false); err != nil {
			failed = append(failed, key)
		}
	}
	if !slices.Equal(failed, []string{"a/2.ltx"}) {
		t.Errorf("failed: %q", failed)
	}
}

func TestRecord(t *testing.T) {
	b := start(t)
	ctx := t.Context()
	_ = b.put("a/1", "x", false)
	_ = b.put("a/1", "x", true)
	_, _ = b.get("a/1")
	_, _ = b.api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.srv.Bucket, Prefix: aws.String("a/")})
	_, _ = b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.srv.Bucket, Key: aws.String("a/1")})
	want := []s3server.Request{
		{Op: s3server.Put, Key: "a/1", Status: 200},
		{Op: s3server.Put, Key: "a/1", Status: 412},
		{Op: s3server.Get, Key: "a/1", Status: 200},
		{Op: s3server.List, Key: "a/", Status: 200},
		{Op: s3server.Delete, Key: "a/1", Status: 204},
	}
	if got := b.srv.Requests(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if n := b.srv.Count(s3server.Put, "a/"); n != 2 {
		t.Errorf("counted %d", n)
	}
	b.srv.Forget()
	if n := b.srv.Count("", ""); n != 0 {
		t.Errorf("after Forget: %d", n)
	}
}

func TestLargeBody(t *testing.T) {
	b := start(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	if err := b.put("large", string(data), true); err != nil {
		t.Fatal(err)
	}
	if got, err := b.get("large"); err != nil || got != string(data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}
