package node

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"holdfast/node/client"
)

// sessionLife is how long a login lasts. It ends sooner with its token, and with
// the process.
const sessionLife = 12 * time.Hour

// sessions makes what a browser sends in the place of an access token. Browsers
// send a cookie to every port of a host, so the token itself must not be one: a
// session is worth nothing but to the process that made it. It is a token's id
// and an end, signed together with the token's hash; nothing is kept.
type sessions struct{ key [32]byte }

func newSessions() *sessions {
	s := &sessions{}
	rand.Read(s.key[:]) // it never fails
	return s
}

const sessionBytes = 8 + 8 + sha256.Size

// sign returns the session of p up to a time.
func (s *sessions) sign(p *principal, end time.Time) string {
	b := make([]byte, 0, sessionBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(p.token.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(end.UnixMilli()))
	b = append(b, s.mac(b, p)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (s *sessions) mac(b []byte, p *principal) []byte {
	m := hmac.New(sha256.New, s.key[:])
	m.Write(b)
	m.Write(p.token.Hash[:])
	return m.Sum(nil)
}

// login checks a token and returns its session. Errors: *apiError, as of
// identify.
func (g *gate) login(secret, remote string) (string, error) {
	p, reason := g.check(secret, remote)
	if p != nil {
		return g.sessions.sign(p, g.now().Add(sessionLife)), nil
	}
	if g.fails.add(remote) {
		return "", &apiError{code: client.CodeRateLimited, message: "too many wrong tokens came from your address; wait a minute"}
	}
	return "", unauthorized(reason)
}

// visitor returns who sends a session, or nil.
func (g *gate) visitor(r *http.Request, cookie string) *principal {
	if !g.closed() {
		return anyone
	}
	c, err := r.Cookie(cookie)
	if err != nil {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(b) != sessionBytes {
		return nil
	}
	id, end := int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
	p := g.named(id)
	if p == nil || !hmac.Equal(b[16:], g.sessions.mac(b[:16], p)) || g.now().UnixMilli() >= end || g.still(p) != nil {
		return nil
	}
	return p
}

// named returns who bears the token of an id; 0 is the configuration's.
func (g *gate) named(id int64) *principal {
	if id == 0 && g.hasAdmin {
		return operator
	}
	known := g.known.Load()
	for i := range known.tokens {
		if t := &known.tokens[i]; t.ID == id && id != 0 {
			return known.byHash[t.Hash]
		}
	}
	return nil
}
