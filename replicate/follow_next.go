package replicate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// errGap is returned when the replica has transactions to which no file leads.
var errGap = errors.New("transactions are missing from the replica")

const (
	// lookAgain is how long all levels are left alone after they had nothing
	// that bridges a gap.
	lookAgain = 5 * time.Second
	// avoid is how long a damaged file is passed by, if others lead past it.
	avoid = time.Minute
	// mostGuessed is for how many transactions their files are asked for by
	// name, without a list.
	mostGuessed = 8
)

// prefixFiles are the files in the prefix of an epoch, for one follower.
type prefixFiles struct {
	epoch  int64
	client litestream.ReplicaClient
	bad    map[ltxName]time.Time // damaged files, and when they were found so
	missed ltx.TXID              // where nothing went on from
	looked time.Time             // when that was found
}

// ltxName is what distinguishes two files of a prefix.
type ltxName struct {
	level    int
	min, max ltx.TXID
}

func nameOf(f *ltx.FileInfo) ltxName { return ltxName{f.Level, f.MinTXID, f.MaxTXID} }

// next returns the file that leads furthest from a TXID: of all that begin at
// the transaction after it or before, and end after it, the one that ends last;
// nil where there is none. Of equals the smaller is as good.
func next(files []*ltx.FileInfo, after ltx.TXID) *ltx.FileInfo {
	var best *ltx.FileInfo
	for _, f := range files {
		if f.MinTXID > after+1 || f.MaxTXID <= after {
			continue
		}
		if best == nil || f.MaxTXID > best.MaxTXID || f.MaxTXID == best.MaxTXID && f.Size < best.Size {
			best = f
		}
	}
	return best
}

// chain returns the files that lead from a TXID as far as they do.
func chain(files []*ltx.FileInfo, after ltx.TXID) []*ltx.FileInfo {
	var links []*ltx.FileInfo
	for f := next(files, after); f != nil; f = next(files, after) {
		links = append(links, f)
		after = f.MaxTXID
	}
	return links
}

func newest(files []*ltx.FileInfo) ltx.TXID {
	var txid ltx.TXID
	for _, f := range files {
		txid = max(txid, f.MaxTXID)
	}
	return txid
}

// after returns the files that lead on from a TXID, none when there is nothing
// newer, and the newest TXID that the replica is known to have.
//
// Level 0 always has the newest file, however old. So its list alone says whether
// there is more, and nearly always how to get there; where it does not, a file
// went that was needed, by compaction or otherwise, and the other levels are
// asked. An empty copy begins with the newest whole one.
//
// Errors: errGap, those of the client.
func (p *prefixFiles) after(ctx context.Context, after ltx.TXID) (links []*ltx.FileInfo, last ltx.TXID, err error) {
	files, err := p.list(ctx, 0, after)
	if err != nil {
		return nil, 0, err
	}
	last = newest(files)
	if after > 0 {
		if links = chain(p.good(files), after); len(links) > 0 || last == after {
			return links, last, nil
		}
	}
	if p.missed == after && time.Since(p.looked) < lookAgain {
		return nil, last, p.gap(after, last)
	}
	for level := 1; level <= litestream.SnapshotLevel; level++ {
		if level == litestream.SnapshotLevel && after > 0 && next(p.good(files), after) != nil {
			break // a way around the gap that is shorter than a whole copy
		}
		more, err := p.list(ctx, level, 0)
		if err != nil {
			return nil, 0, err
		}
		files = append(files, more...)
	}
	last = newest(files)
	if links = chain(p.good(files), after); len(links) == 0 {
		p.missed, p.looked = after, time.Now()
		return nil, last, p.gap(after, last)
	}
	return links, last, nil
}

// gap is the error of a copy that cannot go on, or nil: a copy beyond the replica
// has nothing to wait for.
func (p *prefixFiles) gap(after, last ltx.TXID) error {
	switch {
	case last == 0 && after == 0:
		return fmt.Errorf("%w: prefix %s is empty", errGap, prefixOf(p.epoch))
	case last <= after:
		return nil
	}
	return fmt.Errorf("%w: epoch %d has up to %s, and nothing leads on from %s", errGap, p.epoch, last, after)
}

func (p *prefixFiles) list(ctx context.Context, level int, seek ltx.TXID) ([]*ltx.FileInfo, error) {
	itr, err := p.client.LTXFiles(ctx, level, seek, false)
	if err != nil {
		return nil, err
	}
	files, err := ltx.SliceFileIterator(itr)
	if err != nil {
		return nil, fmt.Errorf("list level %d of epoch %d: %w", level, p.epoch, err)
	}
	return files, nil
}

// good leaves out what was damaged lately.
func (p *prefixFiles) good(files []*ltx.FileInfo) []*ltx.FileInfo {
	if len(p.bad) == 0 {
		return files
	}
	var good []*ltx.FileInfo
	for _, f := range files {
		name := nameOf(f)
		if at, bad := p.bad[name]; bad && time.Since(at) < avoid {
			continue
		}
		delete(p.bad, name)
		good = append(good, f)
	}
	return good
}

// damaged has a file passed by for a while.
func (p *prefixFiles) damaged(f *ltx.FileInfo) {
	if len(p.bad) >= 1000 {
		clear(p.bad)
	}
	p.bad[nameOf(f)] = time.Now()
}

// guess returns the files of level 0 that lead to a TXID which the primary said
// it uploaded: it makes one a transaction. Their sizes are not known.
func guess(after, to ltx.TXID) []*ltx.FileInfo {
	if after == 0 || to <= after || to-after > mostGuessed {
		return nil
	}
	var files []*ltx.FileInfo
	for txid := after + 1; txid <= to; txid++ {
		files = append(files, &ltx.FileInfo{MinTXID: txid, MaxTXID: txid})
	}
	return files
}
