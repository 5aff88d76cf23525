package queue

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strconv"
	"strings"
	"sync"
)

// A lease token is "epoch.id.run.mac". The run of a job never repeats, so the
// first three name one claim of one reign; the MAC, keyed by a secret of the
// file, keeps anyone from making a token up.

const macLen = 16

type lease struct {
	id, run int64
}

// signer makes and checks the lease tokens of one epoch.
type signer struct {
	epoch int64
	pool  sync.Pool // of hash.Hash keyed with the file's secret
}

func newSigner(epoch int64, key []byte) *signer {
	key = append([]byte(nil), key...)
	return &signer{epoch: epoch, pool: sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

func (s *signer) mac(dst []byte, text []byte) []byte {
	h := s.pool.Get().(hash.Hash)
	defer s.pool.Put(h)
	h.Reset()
	h.Write(text)
	var sum [sha256.Size]byte
	return append(dst, h.Sum(sum[:0])[:macLen]...)
}

func (s *signer) token(l lease) string {
	b := make([]byte, 0, 80)
	b = strconv.AppendInt(b, s.epoch, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, l.id, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, l.run, 10)
	var mac [macLen]byte
	s.mac(mac[:0], b)
	b = append(b, '.')
	return string(base64.RawURLEncoding.AppendEncode(b, mac[:]))
}

// GaveLease reports whether a lease token is one that a claim gave, in this
// reign or in one before it. Its lease may have ended.
func (q *Queue) GaveLease(token string) bool {
	_, _, ours := q.signer.read(token)
	return ours
}

// parse returns the lease that a token names, and whether the token is one of
// this epoch. The id is filled in where it can be read, so that an answer can
// name it.
func (s *signer) parse(token string) (lease, bool) {
	l, epoch, ours := s.read(token)
	return l, ours && epoch == s.epoch
}

// read returns what a token says, as far as it can be read, and whether it was
// sealed with the file's secret.
func (s *signer) read(token string) (l lease, epoch int64, ours bool) {
	if len(token) > 128 {
		return l, 0, false
	}
	cut := strings.LastIndexByte(token, '.')
	if cut < 0 {
		return l, 0, false
	}
	parts := strings.Split(token[:cut], ".")
	if len(parts) != 3 {
		return l, 0, false
	}
	var n [3]int64
	for i, p := range parts {
		v, err := strconv.ParseInt(p, 10, 64)
		if err != nil || v < 0 {
			return l, 0, false
		}
		n[i] = v
	}
	l = lease{id: n[1], run: n[2]}
	got, err := base64.RawURLEncoding.DecodeString(token[cut+1:])
	if err != nil {
		return l, 0, false
	}
	want := s.mac(make([]byte, 0, macLen), []byte(token[:cut]))
	return l, n[0], hmac.Equal(got, want)
}
