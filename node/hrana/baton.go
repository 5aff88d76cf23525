package hrana

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// A baton carries the state of a stream from one request of a client to the
// next, signed, so that no node keeps any: whichever gets the next request can
// go on, if it has the same database.

const (
	batonLife = 5 * time.Minute // without a request
	maxBaton  = 640 << 10       // bytes; more than a stream can need
)

// sealed is what a baton says.
type sealed struct {
	At     int64  `json:"t"` // Unix milliseconds
	Stream stream `json:"s"`
}

// seal returns a baton.
func seal(key []byte, s *stream, now time.Time) (string, error) {
	text, err := json.Marshal(sealed{now.UnixMilli(), *s})
	if err != nil {
		return "", err
	}
	body := base64.RawURLEncoding.EncodeToString(text)
	return body + "." + base64.RawURLEncoding.EncodeToString(sign(key, body)), nil
}

// unseal returns the stream of a baton. One that is not ours, or too old, is an
// *httpError.
func unseal(key []byte, baton string, now time.Time) (*stream, error) {
	bad := refuse(http.StatusBadRequest, codeBaton, "the baton is not one of this database")
	body, mac, ok := strings.Cut(baton, ".")
	if !ok || len(baton) > maxBaton {
		return nil, bad
	}
	got, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(got, sign(key, body)) {
		return nil, bad
	}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return nil, bad
	}
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, bad
	}
	if now.UnixMilli()-s.At > batonLife.Milliseconds() {
		return nil, refuse(http.StatusBadRequest, codeStreamExpired, "the stream has expired, as it was not used for "+batonLife.String())
	}
	return &s.Stream, nil
}

func sign(key []byte, body string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("hrana baton\x00" + body))
	return mac.Sum(nil)
}
