package replicate

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Probe is what a bucket lets this machine do.
type Probe struct {
	Rights     error         // nil: the key may list, put, get and delete; else the first that it may not
	Conditions error         // nil: conditional writes work, and two nodes are kept apart
	Skew       time.Duration // how far this machine's clock is ahead of the bucket's
	SkewKnown  bool
}

// ProbeBucket tries a bucket out on scratch objects, which it deletes. A folder
// needs no such thing: it returns the zero Probe.
//
// Errors: *RemoteError when the bucket is not reached.
func ProbeBucket(ctx context.Context, r Replica, log *slog.Logger) (Probe, error) {
	if r.Type != TypeS3 {
		return Probe{}, nil
	}
	s, err := openStore(ctx, r, log)
	if err != nil {
		return Probe{}, err
	}
	defer s.close()
	var p Probe
	p.Skew, p.SkewKnown = skew(ctx, cmp.Or(r.Endpoint, "https://s3.amazonaws.com"))
	if p.Rights = tryRights(ctx, s); unavailable(p.Rights) {
		return p, p.Rights
	}
	if p.Rights == nil {
		p.Conditions = selfTest(ctx, s)
	}
	return p, nil
}

// NoConditions reports whether err says that a bucket's conditional writes do
// not work, rather than that it could not be found out.
func NoConditions(err error) bool { return errors.Is(err, errNoConditionalWrites) }

// tryRights returns the first error of what a node does with objects.
func tryRights(ctx context.Context, s store) error {
	if _, err := s.list(ctx, ".probe-"); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	key := ".probe-" + rand.Text()
	if _, err := s.put(ctx, key, []byte("probe"), condition{}); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	_, err := s.get(ctx, key)
	if err != nil {
		err = fmt.Errorf("get: %w", err)
	}
	if gone := s.remove(ctx, key); gone != nil {
		err = errors.Join(err, fmt.Errorf("delete: %w", gone))
	}
	return err
}

// skew compares this machine's clock with that of a server, which says its time
// in any answer, to the second. False: it did not.
func skew(ctx context.Context, endpoint string) (time.Duration, bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, endpoint, nil)
	if err != nil {
		return 0, false
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false
	}
	resp.Body.Close()
	theirs, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	mine := began.Add(time.Since(began) / 2)
	return mine.Sub(theirs).Round(time.Second), true
}
