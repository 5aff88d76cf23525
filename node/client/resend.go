package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const keptBytes = 32 << 20 // of specs that a client keeps until they are replicated; the oldest go first

// resend keeps what was enqueued until the node says that it is in object
// storage. When another primary begins, which may be without some of it, it is
// sent again: the idempotency keys make that safe.
type resend struct {
	mu    sync.Mutex
	last  commit // the newest that was seen
	kept  []keptBatch
	bytes int
}

// commit is the value of Holdfast-Seq.
type commit struct{ epoch, n int64 }

func (c commit) after(o commit) bool { return c.epoch > o.epoch || c.epoch == o.epoch && c.n > o.n }

type keptBatch struct {
	at    commit
	specs []Spec
}

func (b keptBatch) size() (n int) {
	for i := range b.specs {
		n += len(b.specs[i].Payload) + 256
	}
	return n
}

func parseCommit(text string) (c commit, ok bool) {
	epoch, n, found := strings.Cut(text, ".")
	if !found {
		return c, false
	}
	var err1, err2 error
	c.epoch, err1 = strconv.ParseInt(epoch, 10, 64)
	c.n, err2 = strconv.ParseInt(n, 10, 64)
	return c, err1 == nil && err2 == nil
}

// enqueued keeps specs that were just acknowledged, at the newest commit that
// was seen since, which is theirs or a later one.
func (r *resend) enqueued(specs []Spec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == (commit{}) {
		return // the answers say nothing of commits
	}
	r.keep(keptBatch{r.last, specs})
}

func (r *resend) keep(b keptBatch) {
	r.kept = append(r.kept, b)
	r.bytes += b.size()
	for r.bytes > keptBytes {
		r.drop()
	}
}

func (r *resend) drop() {
	r.bytes -= r.kept[0].size()
	r.kept[0] = keptBatch{}
	r.kept = r.kept[1:]
}

// answered looks at an answer: it lets go of what is replicated, and sends
// again what an earlier epoch may have lost. What cannot be sent now waits for
// the next answer.
func (r *resend) answered(ctx context.Context, c *Client, header http.Header) {
	at, ok := parseCommit(header.Get(seqHeader))
	if !ok {
		return
	}
	safe, _ := parseCommit(header.Get(replicatedSeqHeader))
	for _, batch := range r.due(at, safe) {
		_, err := c.enqueueOnce(ctx, batch.specs)
		r.mu.Lock()
		if err == nil {
			batch.at = r.last
		}
		if err == nil || Temporary(err) || ctx.Err() != nil {
			r.keep(batch)
		}
		r.mu.Unlock()
	}
}

// due returns what has to be sent again, and forgets it.
func (r *resend) due(at, safe commit) []keptBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.after(r.last) {
		r.last = at
	}
	if len(r.kept) > 0 && r.kept[0].at.epoch < r.last.epoch {
		again := r.kept
		r.kept, r.bytes = nil, 0
		return again
	}
	for len(r.kept) > 0 && r.kept[0].at.epoch == safe.epoch && !r.kept[0].at.after(safe) {
		r.drop()
	}
	return nil
}
