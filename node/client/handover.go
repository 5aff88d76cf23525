package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Handover answers POST /v1/handover: who is the primary since.
type Handover struct {
	TakenOver bool   `json:"taken_over"` // false: no standby took it, and the node serves again
	Node      string `json:"node"`       // the primary's name
	URL       string `json:"url"`        // under which others reach it
	Epoch     int64  `json:"epoch"`
	GapMS     int64  `json:"gap_ms"` // how long there was no primary
}

// handoverWait is how long the node may take over its answer.
const handoverWait = time.Minute

// Handover makes the primary among the client's nodes give way to a standby, and
// returns when one serves. Unlike other calls it is sent to none but the nodes
// that the client was made with, and to a primary only once: sent again it would
// make the next one give way.
func (c *Client) Handover(ctx context.Context) (out Handover, err error) {
	for range c.nodes.hops() {
		base := c.nodes.current()
		_, err = c.once(ctx, base, call{method: http.MethodPost, path: "/v1/handover", wait: handoverWait}, &out)
		dial, ok := errors.AsType[*net.OpError](err)
		unsent := ok && dial.Op == "dial"
		if !unsent && !errors.Is(err, ErrNotPrimary) || !c.nodes.leave(base, "") {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("hand over: %w", err)
	}
	return out, nil
}
