package replicate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// mayTake decides whether this node may take a root that another session
// holds. The same name on another disk is the lost node come back, unless the
// holder shows signs of life. In auto mode the lease decides.
func (b *boot) mayTake(ctx context.Context, lock held) (held, error) {
	switch {
	case lock.Session == "" || lock.Closed:
		return lock, nil
	case b.auto():
		return b.await(ctx, lock)
	case lock.Node != b.opts.Node:
		return lock, fmt.Errorf("%w: %s is held by node %q (%s, epoch %d); stop that node, or give the root up for it by `holdfast takeover --force`",
			ErrHeld, b.store.url(), lock.Node, lock.URL, lock.Epoch)
	}
	sign, err := b.signOfLife(ctx, lock)
	if err != nil {
		return lock, fmt.Errorf("look for the holder of %s: %w", b.store.url(), err)
	}
	if sign != "" {
		return lock, fmt.Errorf("%w: node %q is alive: %s; stop it first, or give each node a name of its own (--node)", ErrHeld, lock.Node, sign)
	}
	return lock, nil
}

// signOfLife asks the holder, and watches whether its prefix grows.
func (b *boot) signOfLife(ctx context.Context, lock held) (string, error) {
	if session := askSession(ctx, lock.URL); session == lock.Session {
		return lock.URL + " answers for it", nil
	}
	client, err := b.store.client(prefixOf(lock.Epoch))
	if err != nil {
		return "", err
	}
	guarded := newGuard(client, guardOptions{url: b.store.url(), counter: b.store.requests()})
	first, err := newestTXID(ctx, guarded)
	if err != nil {
		return "", err
	}
	b.log.Info("looking for signs of life of the holder", "node", lock.Node, "for", b.opts.lookForLife.String())
	timer := time.NewTimer(b.opts.lookForLife)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-timer.C:
	}
	second, err := newestTXID(ctx, guarded)
	if err != nil || second == first {
		return "", err
	}
	return fmt.Sprintf("its prefix grew from %s to %s", first, second), nil
}

// askSession asks a node for its session; empty when it does not say.
func askSession(ctx context.Context, url string) string {
	if url == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/v1/node", nil)
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var node struct {
		Session string `json:"session"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&node) != nil {
		return ""
	}
	return node.Session
}
