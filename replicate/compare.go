package replicate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// relation is how the local database stands to a prefix.
type relation int

const (
	relationAhead   relation = iota // the same, or the same and more
	relationBehind                  // the prefix has more
	relationDiffers                 // they have different histories
)

// comparison is how a database stands to a prefix, whose newest TXID is remote.
type comparison struct {
	relation
	remote ltx.TXID
	what   string // for people
}

// compare relates the local files of an epoch to its prefix. The newest file
// of level 0, which both keep, has to be the same to the byte; and the database
// has to be as far as it was when that was uploaded.
func (f *files) compare(ctx context.Context, s store, epoch int64, state State) (comparison, error) {
	client, err := s.client(prefixOf(epoch))
	if err != nil {
		return comparison{}, err
	}
	guarded := newGuard(client, guardOptions{url: s.url(), counter: s.requests()})
	remote, err := newestTXID(ctx, guarded)
	if err != nil {
		return comparison{}, fmt.Errorf("list %s: %w", prefixOf(epoch), err)
	}
	here, err := newestLocal(f.ltxPath(epoch))
	if err != nil {
		return comparison{}, err
	}
	what := fmt.Sprintf("epoch %d: TXID %s here, %s in the replica", epoch, here, remote)
	switch {
	case remote > here:
		return comparison{relationBehind, remote, what}, nil
	case remote == 0:
		return comparison{relationAhead, remote, what}, nil
	}
	same, err := f.sameFile(ctx, guarded, epoch, remote)
	if err != nil {
		return comparison{}, err
	}
	if !same {
		return comparison{relationDiffers, remote, what + ", and the files of " + remote.String() + " differ"}, nil
	}
	p, err := f.position()
	if err != nil {
		return comparison{}, err
	}
	if p.Epoch == epoch && state.Seq < p.Seq {
		what = fmt.Sprintf("%s, and the database is at seq %d where %d was uploaded: an older copy was put in its place", what, state.Seq, p.Seq)
		return comparison{relationDiffers, remote, what}, nil
	}
	return comparison{relationAhead, remote, what}, nil
}

func (f *files) ltxPath(epoch int64) string { return filepath.Join(f.meta(epoch), "ltx", "0") }

func newestTXID(ctx context.Context, client litestream.ReplicaClient) (ltx.TXID, error) {
	itr, err := client.LTXFiles(ctx, 0, 0, false)
	if err != nil {
		return 0, err
	}
	defer itr.Close()
	var newest ltx.TXID
	for itr.Next() {
		newest = max(newest, itr.Item().MaxTXID)
	}
	return newest, errors.Join(itr.Err(), itr.Close())
}

func newestLocal(dir string) (ltx.TXID, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var newest ltx.TXID
	for _, e := range entries {
		if _, last, perr := ltx.ParseFilename(e.Name()); perr == nil {
			newest = max(newest, last)
		}
	}
	return newest, err
}

// sameFile compares a local file of level 0 with the replica's, to the byte.
func (f *files) sameFile(ctx context.Context, client litestream.ReplicaClient, epoch int64, txid ltx.TXID) (same bool, err error) {
	here, err := os.Open(filepath.Join(f.ltxPath(epoch), ltx.FormatFilename(txid, txid)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer here.Close()
	there, err := client.OpenLTXFile(ctx, 0, txid, txid, 0, 0)
	if err != nil {
		return false, fmt.Errorf("read TXID %s: %w", txid, err)
	}
	defer there.Close()
	a, b := sha256.New(), sha256.New()
	if _, err := io.Copy(a, here); err != nil {
		return false, err
	}
	if _, err := io.Copy(b, there); err != nil {
		return false, fmt.Errorf("read TXID %s: %w", txid, err)
	}
	return bytes.Equal(a.Sum(nil), b.Sum(nil)), nil
}

// keep copies a file of level 0 beside a database that is restored up to it,
// so that the next boot can compare the two.
func (f *files) keep(ctx context.Context, client litestream.ReplicaClient, epoch int64, txid ltx.TXID) error {
	there, err := client.OpenLTXFile(ctx, 0, txid, txid, 0, 0)
	if err != nil {
		return fmt.Errorf("read TXID %s: %w", txid, err)
	}
	defer there.Close()
	if err := os.MkdirAll(f.ltxPath(epoch), 0o700); err != nil {
		return err
	}
	path := filepath.Join(f.ltxPath(epoch), ltx.FormatFilename(txid, txid))
	here, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(here, there)
	return errors.Join(err, here.Sync(), here.Close())
}
