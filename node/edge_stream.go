package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"holdfast/node/client"
)

const (
	// positionsAgain is how often a primary that has nothing new says so: an
	// edge with all of it is at most so old.
	positionsAgain = time.Second
	// A stream that ended is begun anew after a time from the first to the last.
	firstStream = 500 * time.Millisecond
	lastStream  = 15 * time.Second
	streamWait  = 10 * time.Second // for the first position
)

// primary is the URL of the primary, or "".
func (c *copies) primary() string {
	if c.named != "" {
		return c.named
	}
	return c.follower.Status().NodeURL
}

// subscribe reads the events of the primary until ctx ends. While it can, the
// follower seldom looks at the bucket; while it cannot, it polls.
func (e *edge) subscribe(ctx context.Context) {
	var pause time.Duration
	var told string // why the last stream ended
	for ctx.Err() == nil {
		began := time.Now()
		err := e.stream(ctx)
		e.copies.follower.Subscribed(false)
		if text := err.Error(); ctx.Err() == nil && text != told && !errors.Is(err, errNoPrimary) {
			told = text
			e.cfg.Logger.Warn("the primary's events are not read; the bucket is polled", "primary", e.copies.primary(), "err", err)
		}
		if time.Since(began) > lastStream {
			pause = 0
		}
		pause = min(max(2*pause, firstStream), lastStream)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

var errStreamEnded = errors.New("the stream ended")

var errNoPrimary = errors.New("lock.json does not say where the primary is")

// stream reads one stream to its end.
func (e *edge) stream(ctx context.Context) error {
	primary := e.copies.primary()
	if primary == "" {
		return errNoPrimary
	}
	c, err := client.New(primary, client.Options{Token: e.cfg.Token, TLS: e.cfg.TLS, Timeout: streamWait})
	if err != nil {
		return err
	}
	defer c.Close()
	f := e.copies.follower
	for at, err := range c.Positions(ctx, positionsAgain) {
		if err != nil {
			return err
		}
		f.Subscribed(true)
		txid, ok := parseTXID(at.TXID)
		switch {
		case !ok: // nothing was uploaded by it yet
		case at.ReplicatedSeq != nil && *at.ReplicatedSeq >= at.Seq:
			f.Poke(at.Epoch, txid)
		default:
			f.Tell(at.Epoch, txid)
		}
	}
	return errStreamEnded
}

// parseTXID reads what txidText wrote.
func parseTXID(text string) (uint64, bool) {
	txid, err := strconv.ParseUint(text, 16, 64)
	return txid, err == nil && txid > 0
}
