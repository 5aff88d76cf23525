package queue

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// give makes a token whose secret is its name.
func give(t *testing.T, q *Queue, name string, expires time.Time) (AccessToken, error) {
	t.Helper()
	token, _, err := q.CreateAccessToken(t.Context(), AccessToken{
		Name: name, Prefix: "hf_" + name, Hash: sha256.Sum256(fmt.Append(nil, name, q.Seq())), Scopes: []string{"enqueue", "view"}, Queues: []string{"mail*"}, ExpiresAt: expires,
	})
	return token, err
}

func TestAccessTokens(t *testing.T) {
	ctx := t.Context()
	q, clock, path := newFake(t)
	list := func() []AccessToken {
		t.Helper()
		tokens, err := q.AccessTokens(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	expires := clock.now().Add(time.Hour)
	first, err := give(t, q, "deploy", expires)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("a token is kept as it was given", func(t *testing.T) {
		got := list()
		if len(got) != 1 || got[0].ID != first.ID || got[0].Name != "deploy" || got[0].Prefix != "hf_deploy" || got[0].Hash != first.Hash ||
			!slices.Equal(got[0].Scopes, first.Scopes) || !slices.Equal(got[0].Queues, first.Queues) ||
			!got[0].ExpiresAt.Equal(expires) || !got[0].CreatedAt.Equal(clock.now()) || !got[0].Good(clock.now()) {
			t.Errorf("got %+v, want %+v", got, first)
		}
	})
	t.Run("another connection reads the same", func(t *testing.T) {
		db, err := sql.Open("sqlite", dsn(path, "ro"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		got, err := ReadAccessTokens(ctx, db)
		if err != nil || len(got) != 1 || got[0].Hash != first.Hash {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("the file tells from outside that it has a token", func(t *testing.T) {
		if id, err := Inspect(ctx, path); err != nil || id.Tokens != 1 {
			t.Errorf("got %+v, %v", id, err)
		}
	})
	t.Run("the name of a good token is taken", func(t *testing.T) {
		if _, err := give(t, q, "deploy", time.Time{}); !errors.Is(err, ErrTokenName) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the name of an expired one is free, and its id is not given again", func(t *testing.T) {
		clock.pass(2 * time.Hour)
		if got := list(); got[0].Good(clock.now()) {
			t.Errorf("%+v is good", got[0])
		}
		second, err := give(t, q, "deploy", time.Time{})
		if err != nil || second.ID != first.ID+1 || len(list()) != 1 {
			t.Errorf("got %+v, %v, list %+v", second, err, list())
		}
	})
	t.Run("a revoked one is listed, and not good", func(t *testing.T) {
		id := list()[0].ID
		for range 2 {
			if _, err := q.RevokeAccessToken(ctx, id); err != nil {
				t.Fatal(err)
			}
			clock.pass(time.Minute)
		}
		if got := list(); len(got) != 1 || got[0].Good(clock.now()) || !got[0].RevokedAt.Equal(clock.now().Add(-2*time.Minute)) {
			t.Errorf("got %+v", got)
		}
		if id, err := Inspect(ctx, path); err != nil || id.Tokens != 0 {
			t.Errorf("got %+v, %v", id, err)
		}
	})
	t.Run("one that is not there cannot be revoked", func(t *testing.T) {
		seq := q.Seq()
		if _, err := q.RevokeAccessToken(ctx, 99); !errors.Is(err, ErrNoToken) || q.Seq() != seq {
			t.Errorf("got %v", err)
		}
	})
	t.Run("after a while it is forgotten", func(t *testing.T) {
		clock.pass(TokenLife)
		token, err := give(t, q, "other", time.Time{})
		if got := list(); err != nil || len(got) != 1 || got[0].ID != token.ID || token.ID != 3 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("bad ones are refused", func(t *testing.T) {
		for name, bad := range map[string]AccessToken{
			"no name":   {},
			"two lines": {Name: "a\nb"},
			"the past":  {Name: "past", ExpiresAt: clock.now()},
			"seconds":   {Name: "seconds", ExpiresAt: time.UnixMilli(clock.now().Unix())},
		} {
			var spec *SpecError
			if _, _, err := q.CreateAccessToken(ctx, bad); !errors.As(err, &spec) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

func TestTooManyAccessTokens(t *testing.T) {
	q, _, path := newFake(t)
	if _, err := give(t, q, "last", time.Time{}); err != nil {
		t.Fatal(err)
	}
	exec(t, path, fmt.Sprintf(`with recursive n(i) as (select 2 union all select i+1 from n where i < %d)
 insert into tokens(id, name, hash, scopes, queues, created_at) select i, 'token ' || i, randomblob(32), '', '', 0 from n`, MaxAccessTokens))
	if _, err := give(t, q, "one more", time.Time{}); !errors.Is(err, ErrTooManyTokens) {
		t.Errorf("got %v", err)
	}
	if _, err := q.RevokeAccessToken(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if _, err := give(t, q, "one more", time.Time{}); err != nil {
		t.Error(err)
	}
}

// exec changes the file from outside, between two rounds.
func exec(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

func TestAudit(t *testing.T) {
	q, clock, _ := newFake(t)
	ctx := WithAudit(t.Context(), Audit{Token: 3, Actor: "deploy", Remote: "10.0.0.1", Action: "job.cancel", Target: "1", Detail: `{"queue":"mail"}`})
	trail := func(before int64, limit int) []AuditEntry {
		t.Helper()
		entries, err := q.AuditTrail(t.Context(), before, limit)
		if err != nil {
			t.Fatal(err)
		}
		return entries
	}
	t.Run("a change that is refused leaves no entry", func(t *testing.T) {
		seq := q.Seq()
		if _, _, err := q.Cancel(ctx, 1); !errors.Is(err, ErrNotFound) || len(trail(0, 10)) != 0 || q.Seq() != seq {
			t.Errorf("got %v and %+v", err, trail(0, 10))
		}
	})
	in, _, err := q.Enqueue(ctx, Spec{Queue: "mail"}, Spec{Queue: "mail"}, Spec{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("an enqueue leaves none", func(t *testing.T) {
		if got := trail(0, 10); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("one that took effect leaves one, in its commit", func(t *testing.T) {
		before := q.Seq()
		_, seq, err := q.Cancel(ctx, in[0].ID)
		if err != nil || seq.N != before.N+1 {
			t.Fatalf("%v, %v", seq, err)
		}
		got := trail(0, 10)
		if len(got) != 1 || got[0].Audit != *auditOf(ctx) || got[0].Count != 1 || !got[0].At.Equal(clock.now()) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("without anyone to name there is none", func(t *testing.T) {
		if _, _, err := q.Cancel(t.Context(), in[1].ID); err != nil || len(trail(0, 10)) != 1 {
			t.Errorf("got %v and %+v", err, trail(0, 10))
		}
	})
	t.Run("a change of many tells how many", func(t *testing.T) {
		claims, _, err := q.Claim(ctx, ClaimRequest{Queues: []string{"mail"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := q.Fail(ctx, []Fail{{Lease: claims.Jobs[0].Lease, Fatal: true}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{2, 2} { // the second time there is none to retry
			if _, _, err := q.RetryDead(ctx, Filter{}, false); err != nil || len(trail(0, 10)) != want || trail(0, 10)[0].Count != 1 {
				t.Errorf("got %v and %+v", err, trail(0, 10))
			}
		}
		if _, _, err := q.RetryDead(ctx, Filter{}, true); err != nil || len(trail(0, 10)) != 2 {
			t.Errorf("a dry run: got %v and %+v", err, trail(0, 10))
		}
	})
	t.Run("a change that was made before leaves another", func(t *testing.T) {
		if _, _, err := q.Cancel(ctx, in[0].ID); err != nil || len(trail(0, 10)) != 3 {
			t.Errorf("got %v and %+v", err, trail(0, 10))
		}
	})
	t.Run("what changes nothing can be noted", func(t *testing.T) {
		if err := q.Note(ctx); err != nil || len(trail(0, 10)) != 4 {
			t.Errorf("got %v and %+v", err, trail(0, 10))
		}
	})
	t.Run("it is read page by page, the newest first", func(t *testing.T) {
		first := trail(0, 3)
		rest := trail(first[2].ID, 2)
		if len(first) != 3 || len(rest) != 1 || first[0].ID != 4 || rest[0].ID != 1 {
			t.Errorf("got %+v and %+v", first, rest)
		}
	})
	t.Run("after a year it is gone", func(t *testing.T) {
		clock.pass(AuditLife / 2)
		if _, _, err := q.Cancel(ctx, in[2].ID); err != nil {
			t.Fatal(err)
		}
		clock.pass(AuditLife/2 + time.Hour)
		if err := q.sweepAudit(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := trail(0, 10); len(got) != 1 || got[0].ID != 5 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAllow(t *testing.T) {
	q, _, _ := newFake(t)
	var specs []Spec
	for i := range 30 {
		specs = append(specs, Spec{Queue: []string{"mail", "mail.bulk", "secret"}[i%3]})
	}
	in, _, err := q.Enqueue(t.Context(), specs...)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(name string) bool { return name != "secret" }
	for _, state := range []State{0, StateQueued} {
		seen := 0
		for f := (Filter{State: state, Limit: 7, Allow: allow}); ; {
			page, err := q.Jobs(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Jobs {
				seen++
				if !allow(j.Queue) {
					t.Errorf("job %d of %s is listed", j.ID, j.Queue)
				}
			}
			if f.After = page.Next; page.Next == "" {
				break
			}
		}
		if seen != 20 {
			t.Errorf("state %d: %d jobs are listed, want 20", state, seen)
		}
	}
	none := Filter{State: StateQueued, Allow: func(string) bool { return false }}
	if page, err := q.Jobs(t.Context(), none); err != nil || len(page.Jobs) != 0 || page.Next != "" {
		t.Errorf("got %+v, %v", page, err)
	}
	got, err := q.QueuesOf(t.Context(), []int64{in[1].ID, in[2].ID, 999})
	if err != nil || len(got) != 2 || got[in[1].ID] != "mail.bulk" || got[in[2].ID] != "secret" {
		t.Errorf("got %v, %v", got, err)
	}
}
