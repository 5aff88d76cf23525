package replicate

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"holdfast/tests/s3server"
)

func TestS3Faults(t *testing.T) {
	srv, s := openS3(t)
	s.timeout = 5 * time.Second
	ctx := t.Context()
	mustPut(t, s, "lock.json", "one", condition{})
	current := func() string {
		t.Helper()
		got, err := s.get(ctx, "lock.json")
		if err != nil {
			t.Fatal(err)
		}
		return got.version
	}

	t.Run("a lost answer to a swap is no lost swap", func(t *testing.T) {
		version := current()
		srv.Forget()
		defer srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.CutAfter})()
		_, err := s.put(ctx, "lock.json", []byte("mine"), condition{version: version})
		if err == nil || errors.Is(err, errCondition) {
			t.Fatalf("got %v, want an error that leaves it open", err)
		}
		wantKind(t, err, RemoteUnreachable)
		if n := srv.Count(s3server.Put, ""); n != 1 {
			t.Errorf("it was sent %d times", n)
		}
		if got, err := s.get(ctx, "lock.json"); err != nil || string(got.data) != "mine" {
			t.Errorf("the swap is %q, %v", got.data, err)
		}
	})
	t.Run("a swap is sent once whatever is answered", func(t *testing.T) {
		for _, status := range []int{500, 503} {
			srv.Forget()
			remove := srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Answer, Status: status})
			_, err := s.put(ctx, "lock.json", []byte("x"), condition{version: current()})
			remove()
			if err == nil || errors.Is(err, errCondition) {
				t.Errorf("%d: got %v", status, err)
			}
			if n := srv.Count(s3server.Put, ""); n != 1 {
				t.Errorf("%d: it was sent %d times", status, n)
			}
		}
	})
	t.Run("a conflict is a condition that does not hold", func(t *testing.T) {
		defer srv.Inject(s3server.Fault{Op: s3server.Put, Do: s3server.Answer, Status: 409})()
		_, err := s.put(ctx, "lock.json", []byte("x"), condition{version: current()})
		wantErr(t, err, errCondition)
	})
	t.Run("a read gets through a cut connection", func(t *testing.T) {
		defer srv.Inject(s3server.Fault{Op: s3server.Get, Do: s3server.CutBefore, Times: 2})()
		if _, err := s.get(ctx, "lock.json"); err != nil {
			t.Error(err)
		}
	})
	t.Run("a read that is cut in the middle is an error", func(t *testing.T) {
		defer srv.Inject(s3server.Fault{Op: s3server.Get, Do: s3server.Truncate, Bytes: 2})()
		if got, err := s.get(ctx, "lock.json"); err == nil {
			t.Errorf("got %q", got.data)
		}
	})
	t.Run("a black hole is a timeout", func(t *testing.T) {
		s.timeout = 200 * time.Millisecond
		defer func() { s.timeout = 5 * time.Second }()
		defer srv.Inject(s3server.Fault{Do: s3server.BlackHole})()
		began := time.Now()
		_, err := s.put(ctx, "lock.json", []byte("x"), condition{absent: true})
		wantKind(t, err, RemoteTimeout)
		_, err = s.get(ctx, "lock.json")
		wantKind(t, err, RemoteTimeout)
		_, err = s.list(ctx, "")
		wantKind(t, err, RemoteTimeout)
		wantKind(t, s.remove(ctx, "lock.json"), RemoteTimeout)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	t.Run("with S3 down it cannot be reached", func(t *testing.T) {
		defer srv.Down()()
		_, err := s.get(ctx, "lock.json")
		wantKind(t, err, RemoteUnreachable)
	})
}

func TestS3ListPages(t *testing.T) {
	srv, s := openS3(t)
	for i := range 1003 {
		mustPutFile(t, srv.Dir, fmt.Sprintf("root/p/%04d", i))
	}
	srv.Forget()
	keys := keysIn(t, s, "p/")
	if len(keys) != 1003 || keys[1002] != "p/1002" {
		t.Errorf("got %d keys", len(keys))
	}
	if n := srv.Count(s3server.List, "root/p/"); n != 2 {
		t.Errorf("got %d pages", n)
	}
	if got := s.requests().snapshot().List; got != 2 {
		t.Errorf("counted %d", got)
	}
}

func TestS3Requests(t *testing.T) {
	_, s := openS3(t)
	mustPut(t, s, "a", "1", condition{})
	mustPut(t, s, "b", "1", condition{absent: true})
	_, _ = s.get(t.Context(), "a")
	_, _ = s.get(t.Context(), "nothing")
	_, _ = s.list(t.Context(), "")
	_ = s.remove(t.Context(), "a")
	if got, want := s.requests().snapshot(), (Requests{Put: 2, Get: 2, List: 1, Delete: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSelfTest(t *testing.T) {
	tests := []struct {
		outcome string
		fault   s3server.Fault
		refused bool // by errNoConditionalWrites
		kind    RemoteKind
	}{
		{"a provider that ignores conditions is found out", s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional}, true, 0},
		{"one that ignores If-Match on missing objects too", s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional, Times: 1}, true, 0},
		{"one that ignores the second If-None-Match", s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional, After: 2, Times: 1}, true, 0},
		{"one that ignores a wrong If-Match", s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional, After: 3, Times: 1}, true, 0},
		{"one that ignores a stale If-Match", s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional, After: 5, Times: 1}, true, 0},
		{"one that fails in a race", s3server.Fault{Op: s3server.Put, Do: s3server.Unconditional, After: 6}, true, 0},
		{"one that refuses conditions", s3server.Fault{Op: s3server.Put, Do: s3server.Answer, Status: 501}, true, 0},
		{"one that is out of reach is not blamed", s3server.Fault{Do: s3server.CutBefore}, false, RemoteUnreachable},
		{"a key that may not put", s3server.Fault{Op: s3server.Put, Do: s3server.Answer, Status: 403}, false, RemoteForbidden},
		{"a key that may not delete", s3server.Fault{Op: s3server.Delete, Do: s3server.Answer, Status: 403}, false, RemoteForbidden},
	}
	for _, tt := range tests {
		t.Run(tt.outcome, func(t *testing.T) {
			srv, s := openS3(t)
			srv.Inject(tt.fault)
			err := selfTest(t.Context(), s)
			if got := errors.Is(err, errNoConditionalWrites); got != tt.refused {
				t.Fatalf("got %v", err)
			}
			if !tt.refused {
				wantKind(t, err, tt.kind)
			}
		})
	}
}

func TestS3Settings(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	yes, no := true, false
	tests := []struct {
		outcome   string
		replica   Replica
		pathStyle bool
		signed    bool
		url       string
	}{
		{"AWS", Replica{Bucket: "b", Region: "eu-west-1"}, false, true, "s3://b"},
		{"MinIO", Replica{Bucket: "b", Endpoint: "http://127.0.0.1:9000", Path: "/x/"}, true, true, "s3://b/x?endpoint=http://127.0.0.1:9000"},
		{"path style is turned off", Replica{Bucket: "b", Endpoint: "https://s3.example.com", ForcePathStyle: &no}, false, true, "s3://b?endpoint=https://s3.example.com"},
		{"unsigned payloads", Replica{Bucket: "b", Endpoint: "https://s3.example.com", ForcePathStyle: &yes, SignPayload: &no}, true, false, "s3://b?endpoint=https://s3.example.com"},
		{"a password in the endpoint is not shown", Replica{Bucket: "b", Endpoint: "https://u:secret@s3.example.com"}, true, true, "s3://b?endpoint=https://s3.example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.outcome, func(t *testing.T) {
			s, err := newS3Store(tt.replica, slog.Default())
			if err != nil {
				t.Fatal(err)
			}
			if s.settings.ForcePathStyle != tt.pathStyle || s.settings.SignPayload != tt.signed || s.url() != tt.url {
				t.Errorf("got path style %t, signed %t, %s", s.settings.ForcePathStyle, s.settings.SignPayload, s.url())
			}
		})
	}
	t.Run("no bucket", func(t *testing.T) {
		if _, err := newS3Store(Replica{}, slog.Default()); err == nil || !strings.Contains(err.Error(), "bucket") {
			t.Errorf("got %v", err)
		}
	})
}

func TestS3UnsignedPayload(t *testing.T) {
	srv := s3server.Start(t)
	r := bucketOf(srv)
	r.SignPayload = new(bool)
	s := openRoot(t, r)
	mustPut(t, s, "a", "unsigned", condition{absent: true})
	if got, err := s.get(t.Context(), "a"); err != nil || string(got.data) != "unsigned" {
		t.Errorf("got %q, %v", got.data, err)
	}
}

func TestS3ReadOnly(t *testing.T) {
	srv, s := openS3(t)
	mustPut(t, s, "lock.json", "{}", condition{})
	r, err := openStoreToRead(t.Context(), bucketOf(srv), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	srv.Forget()
	if got, err := r.get(t.Context(), "lock.json"); err != nil || string(got.data) != "{}" {
		t.Errorf("got %q, %v", got.data, err)
	}
	_, err = r.put(t.Context(), "lock.json", nil, condition{})
	wantErr(t, err, errReadOnly)
	wantErr(t, r.remove(t.Context(), "lock.json"), errReadOnly)
	if n := srv.Count(s3server.Put, "") + srv.Count(s3server.Delete, ""); n != 0 {
		t.Errorf("%d requests that write", n)
	}
}

func TestS3KeyOfTheEnvironment(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", s3server.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3server.SecretAccessKey)
	srv := s3server.Start(t)
	r := bucketOf(srv)
	r.AccessKeyID, r.SecretAccessKey = "", ""
	t.Run("it is used where the settings have none", func(t *testing.T) {
		mustPut(t, openRoot(t, r), "a", "1", condition{})
	})
	t.Run("with a token the SDK reads all three", func(t *testing.T) {
		t.Setenv("AWS_SESSION_TOKEN", "token")
		s := openRoot(t, r).(*s3Store)
		if s.settings.AccessKeyID != "" {
			t.Error("the key was taken without the token")
		}
	})
}
