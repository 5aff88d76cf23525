package queue

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// An access token lets a client of a node in. The queue keeps tokens, so that
// they go wherever the file goes; what their scopes and patterns allow is for
// the node to say. It is no lease token, for which see token.go.

const (
	// MaxAccessTokens bounds the tokens that are not revoked. All of them fit
	// into memory, so that a request costs no look into the file.
	MaxAccessTokens = 1000
	// TokenLife is how long a token that is revoked or expired stays in lists.
	TokenLife = 90 * 24 * time.Hour

	maxTokenList = 4096 // bytes of a token's scopes, and of its queues
)

// AccessToken is a token without its secret.
type AccessToken struct {
	ID        int64    // never given twice
	Name      string   // unique among those that are good; up to MaxName bytes
	Prefix    string   // how the secret begins, to tell tokens apart
	Hash      [32]byte // SHA-256 of the secret
	Scopes    []string // words without spaces
	Queues    []string // patterns without spaces
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: it is not
}

// Good reports whether the token is neither revoked nor expired.
func (t *AccessToken) Good(now time.Time) bool {
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt))
}

func (t *AccessToken) validate(now time.Time) error {
	switch {
	case t.Name == "":
		return &SpecError{"name", "is required"}
	case len(t.Name) > MaxName || !utf8.ValidString(t.Name) || strings.ContainsFunc(t.Name, isControl):
		return &SpecError{"name", fmt.Sprintf("at most %d bytes of text on one line", MaxName)}
	case len(strings.Join(t.Scopes, " ")) > maxTokenList:
		return &SpecError{"scopes", "are too many"}
	case len(strings.Join(t.Queues, " ")) > maxTokenList:
		return &SpecError{"queues", fmt.Sprintf("at most %d bytes of patterns", maxTokenList)}
	case !t.ExpiresAt.IsZero() && (!plausible(t.ExpiresAt, now) || !t.ExpiresAt.After(now)):
		return &SpecError{"expires_at_ms", "must be a time to come in Unix milliseconds, at most ten years ahead"}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// AccessTokens returns every token, by id: also those that expired, and for
// TokenLife those that were revoked. Errors: ErrClosed, ctx.Err().
func (q *Reader) AccessTokens(ctx context.Context) (tokens []AccessToken, err error) {
	err = q.view(ctx, func(ctx context.Context, tx *sql.Tx) error {
		tokens, err = ReadAccessTokens(ctx, tx)
		return err
	})
	return tokens, err
}

// Querier is the part of *sql.DB, *sql.Conn and *sql.Tx that reads.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// ReadAccessTokens is AccessTokens of any copy of the file that is open for
// reading, such as that of an edge.
func ReadAccessTokens(ctx context.Context, db Querier) ([]AccessToken, error) {
	rows, err := db.QueryContext(ctx, "select id, name, prefix, hash, scopes, queues, created_at, expires_at, revoked_at from tokens order by id")
	if err != nil {
		return nil, fmt.Errorf("read access tokens: %w", err)
	}
	defer rows.Close()
	var tokens []AccessToken
	for rows.Next() {
		t, err := scanAccessToken(rows)
		if err != nil {
			return nil, fmt.Errorf("read access tokens: %w", err)
		}
		tokens = append(tokens, t)
	}
	return tokens, rows.Err()
}

func scanAccessToken(rows *sql.Rows) (AccessToken, error) {
	var t AccessToken
	var hash []byte
	var scopes, queues string
	var created int64
	var expires, revoked sql.NullInt64
	if err := rows.Scan(&t.ID, &t.Name, &t.Prefix, &hash, &scopes, &queues, &created, &expires, &revoked); err != nil {
		return t, err
	}
	if len(hash) != len(t.Hash) {
		return t, fmt.Errorf("the hash of token %d has %d bytes", t.ID, len(hash))
	}
	copy(t.Hash[:], hash)
	t.Scopes, t.Queues = strings.Fields(scopes), strings.Fields(queues)
	t.CreatedAt = time.UnixMilli(created)
	if expires.Valid {
		t.ExpiresAt = time.UnixMilli(expires.Int64)
	}
	if revoked.Valid {
		t.RevokedAt = time.UnixMilli(revoked.Int64)
	}
	return t, nil
}

// CreateAccessToken keeps a token, and returns it with its id and the time. It
// takes the name of one that is revoked or expired.
//
// Errors: ErrTokenName, ErrTooManyTokens, *SpecError, ErrUnknownOutcome,
// ErrClosed, ctx.Err().
func (q *Queue) CreateAccessToken(ctx context.Context, t AccessToken) (AccessToken, Seq, error) {
	if err := t.validate(q.w.clock.wall()); err != nil {
		return AccessToken{}, Seq{}, err
	}
	o := &op{admin: func(r *round) error { return r.createAccessToken(&t) }}
	if err := q.do(ctx, o); err != nil {
		return AccessToken{}, Seq{}, err
	}
	return t, q.seq(o), nil
}

func (r *round) createAccessToken(t *AccessToken) error {
	ctx, conn := context.Background(), r.w.conn
	var taken bool
	var alive, last int64
	// The highest id is read before anything is deleted, so that none comes twice.
	if err := conn.QueryRowContext(ctx, `select coalesce(max(id), 0), count(*) filter (where revoked_at is null),
 count(*) filter (where name = ? and revoked_at is null and coalesce(expires_at > ?, 1)) > 0 from tokens`, t.Name, r.now.wall).Scan(&last, &alive, &taken); err != nil {
		return err
	}
	switch {
	case taken:
		return ErrTokenName
	case alive >= MaxAccessTokens:
		return ErrTooManyTokens
	}
	if err := r.begin(); err != nil {
		return err
	}
	r.dirty = true
	if _, err := conn.ExecContext(ctx, "delete from tokens where name = ? or min(coalesce(revoked_at, expires_at), coalesce(expires_at, revoked_at)) < ?",
		t.Name, r.now.wall-TokenLife.Milliseconds()); err != nil {
		return err
	}
	t.ID, t.CreatedAt = last+1, time.UnixMilli(r.now.wall)
	var expires any
	if !t.ExpiresAt.IsZero() {
		expires = t.ExpiresAt.UnixMilli()
	}
	_, err := conn.ExecContext(ctx, "insert into tokens(id, name, prefix, hash, scopes, queues, created_at, expires_at) values (?, ?, ?, ?, ?, ?, ?, ?)",
		t.ID, t.Name, t.Prefix, t.Hash[:], strings.Join(t.Scopes, " "), strings.Join(t.Queues, " "), r.now.wall, expires)
	return err
}

// RevokeAccessToken makes a token worthless for ever. To revoke it twice is no
// error.
//
// Errors: ErrNoToken, ErrUnknownOutcome, ErrClosed, ctx.Err().
func (q *Queue) RevokeAccessToken(ctx context.Context, id int64) (Seq, error) {
	o := &op{admin: func(r *round) error { return r.revokeAccessToken(id) }}
	if err := q.do(ctx, o); err != nil {
		return Seq{}, err
	}
	return q.seq(o), nil
}

func (r *round) revokeAccessToken(id int64) error {
	ctx, conn := context.Background(), r.w.conn
	var there bool
	if err := conn.QueryRowContext(ctx, "select count(*) > 0 from tokens where id = ?", id).Scan(&there); err != nil {
		return err
	}
	if !there {
		return ErrNoToken
	}
	if err := r.begin(); err != nil {
		return err
	}
	r.dirty = true
	_, err := conn.ExecContext(ctx, "update tokens set revoked_at = ? where id = ? and revoked_at is null", r.now.wall, id)
	return err
}
