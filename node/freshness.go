package node

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"holdfast/node/client"
	"holdfast/queue"
)

const (
	asOfHeader  = "Holdfast-As-Of"  // Unix milliseconds: nothing that was uploaded before is missing
	lagHeader   = "Holdfast-Lag-Ms" // since then
	minSeqParam = "min_seq"
	maxLagParam = "max_lag_ms"
)

// freshness is how new what a request reads must be. A primary has everything;
// an edge may have to wait, or to refuse.
type freshness struct {
	minSeq  queue.Seq // of an answer before: its state, or a later one
	bounded bool
	maxLag  time.Duration
}

// fresh are the parameters of a route whose answer is one state, after its own.
func fresh(own ...string) []string { return append(own[:len(own):len(own)], minSeqParam, maxLagParam) }

// freshnessOf reads the parameters.
func freshnessOf(r *http.Request) (want freshness, err error) {
	if r.URL.RawQuery == "" {
		return want, nil
	}
	values := r.URL.Query()
	if text := values.Get(minSeqParam); text != "" {
		if want.minSeq, err = parseSeq(text); err != nil {
			return want, err
		}
	}
	if text := values.Get(maxLagParam); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 {
			return want, invalid("%s: %.40q is not a number of milliseconds from 0 on", maxLagParam, text)
		}
		want.bounded, want.maxLag = true, time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond
	}
	return want, nil
}

// parseSeq reads epoch.seq, as the header Holdfast-Seq has it.
func parseSeq(text string) (queue.Seq, error) {
	epoch, n, _ := strings.Cut(text, ".")
	a, okA := parseID(epoch)
	b, okB := parseID(n)
	if !okA || !okB {
		return queue.Seq{}, invalid("%s: %.60q is not epoch.seq, as the header %s has it", minSeqParam, text, seqHeader)
	}
	return queue.Seq{Epoch: a, N: b}, nil
}

// before reports whether a is an earlier state than b. A later epoch has all
// that counts of those before it.
func before(a, b queue.Seq) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.N < b.N
}

// hold makes sure that what a request reads is as new as it wants. On an edge
// the request is held to one state from now on.
func (a *API) hold(r *http.Request) error {
	want, err := freshnessOf(r)
	if err != nil {
		return err
	}
	if h := holdOf(r); h != nil {
		h.want = want
		return h.take(r.Context())
	}
	if store := a.store.Load(); store != nil && before((*store).Seq(), want.minSeq) {
		return &apiError{code: client.CodeStale, message: fmt.Sprintf("this node has %s, and was asked for %s, which is of another history", (*store).Seq(), want.minSeq)}
	}
	return nil
}

// storeFor is the store for a request: on an edge the state that it is held to.
func (a *API) storeFor(r *http.Request) Store {
	if h := holdOf(r); h != nil {
		return newEdgeStore(h.copies, h)
	}
	if store := a.store.Load(); store != nil {
		return *store
	}
	return nil
}
