package replicate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superfly/ltx"
)

// copyState is kept beside a copy. It says what the file holds, and what may
// be mixed into it.
//
// Pages are images, so to write the same again does no harm. But a copy that was
// left in the middle of a file holds pages from up to To, and is one database
// again only once it has been brought there: until then it is torn.
//
// A process that is killed leaves its files as it wrote them; a machine that
// loses power does not. So the state of a copy in use counts only in the same
// run of the machine, which spares an fsync for every file; a copy that was
// closed was synced, and counts in any.
type copyState struct {
	Root     string   `json:"root"` // its URL when the copy was last prepared
	Lineage  string   `json:"lineage"`
	Epoch    int64    `json:"epoch"`
	TXID     ltx.TXID `json:"txid"`  // everything up to it is in the copy
	To       ltx.TXID `json:"to"`    // nothing beyond it is
	Bytes    int64    `json:"bytes"` // of the file, unless it is torn
	PageSize uint32   `json:"page_size"`
	MadeMS   int64    `json:"made_ms"` // when the primary made the last file, by its clock
	BootID   string   `json:"boot_id"` // of the machine's run in which it was written
	Closed   bool     `json:"closed"`  // it was synced; nothing was written since
}

// localCopy is a database file that is brought up to date from the replica's
// files. Nobody may have the file open while it is written.
type localCopy struct {
	path  string
	state copyState
	fresh bool // begun in this run of the process, from the replica
	// step is called before each thing that is written; tests end a process
	// there, or what looks like one. It may be nil.
	step func(what string) error
}

const (
	copyPattern = "copy-*.db"
	stateSuffix = ".json"
)

// errUnusable is returned when a copy cannot be brought further and has to be
// made anew.
var errUnusable = errors.New("the copy cannot go on")

// newCopy begins an empty copy in dir, under a name that is not taken.
func newCopy(dir, lineage string, epoch int64) (*localCopy, error) {
	f, err := os.CreateTemp(dir, copyPattern)
	if err != nil {
		return nil, err
	}
	c := &localCopy{path: f.Name(), state: copyState{Lineage: lineage, Epoch: epoch}, fresh: true}
	return c, errors.Join(f.Close(), c.save(false))
}

// openCopies returns the copies in dir that can be gone on with, and removes
// everything else of ours.
func openCopies(dir string) ([]*localCopy, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []*localCopy
	keep := map[string]bool{}
	for _, e := range entries {
		if ok, _ := filepath.Match(copyPattern, e.Name()); !ok {
			continue
		}
		c := &localCopy{path: filepath.Join(dir, e.Name())}
		if there, err := readJSON(c.path+stateSuffix, &c.state); err == nil && there && c.trusted() {
			found = append(found, c)
			keep[e.Name()], keep[e.Name()+stateSuffix] = true, true
		}
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), "copy-") || strings.HasPrefix(e.Name(), "fetched-")
		if ours && !keep[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return found, err
}

// trusted reports whether the file is what the state says.
func (c *localCopy) trusted() bool {
	s := &c.state
	if here := bootID(); !s.Closed && (here == "" || s.BootID != here) || s.TXID == 0 {
		return false
	}
	info, err := os.Stat(c.path)
	return err == nil && (!c.whole() || info.Size() == s.Bytes)
}

// whole reports whether the copy is one database, and as far as it was meant to
// be.
func (c *localCopy) whole() bool { return c.state.TXID > 0 && c.state.TXID >= c.state.To }

// at reports whether the copy is of this database and epoch.
func (c *localCopy) at(lineage string, epoch int64) bool {
	return c.state.Lineage == lineage && c.state.Epoch == epoch
}

// aim keeps the copy from counting as whole before it has come to txid.
func (c *localCopy) aim(txid ltx.TXID) error {
	if txid <= c.state.To {
		return nil
	}
	c.state.To = txid
	return c.save(false)
}

func (c *localCopy) save(synced bool) error {
	reopened := c.state.Closed && !synced
	c.state.BootID, c.state.Closed = bootID(), synced
	// That the copy was closed must be gone from the disk before it is written.
	if err := writeJSON(c.path+stateSuffix, c.state, synced || reopened); err != nil {
		return fmt.Errorf("write the state of a copy: %w", err)
	}
	return nil
}

func (c *localCopy) before(what string) error {
	if c.step == nil {
		return nil
	}
	return c.step(what)
}

// apply brings the copy to the end of a file that was verified. After an error
// it is torn, but for errUnusable: then nothing was done.
func (c *localCopy) apply(f *fetchedFile) error {
	h, s := &f.header, &c.state
	switch {
	case h.MinTXID > s.TXID+1 || h.MaxTXID <= s.TXID:
		return fmt.Errorf("%w: it is at %s, the file has %s to %s", errUnusable, s.TXID, h.MinTXID, h.MaxTXID)
	case s.PageSize != 0 && s.PageSize != h.PageSize:
		return fmt.Errorf("%w: its pages have %d bytes, those of the file %d", errUnusable, s.PageSize, h.PageSize)
	}
	if err := c.before("mark"); err != nil {
		return err
	}
	s.To, s.PageSize = max(s.To, h.MaxTXID), h.PageSize
	if err := c.save(false); err != nil {
		return err
	}
	if err := c.write(f); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(c.path), err)
	}
	if err := c.before("state"); err != nil {
		return err
	}
	s.TXID, s.Bytes = h.MaxTXID, int64(h.Commit)*int64(h.PageSize)
	s.MadeMS = max(s.MadeMS, h.Timestamp)
	return c.save(false)
}

// write writes the pages. On page 1 the bytes 18 and 19 say how the database
// keeps its journal: 2 is a WAL, without which SQLite does not open it, and 1 is
// none. A copy has none, and is read as it is.
func (c *localCopy) write(f *fetchedFile) (err error) {
	w, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	size := int64(f.header.PageSize)
	err = f.pages(func(pgno uint32, data []byte) error {
		if err := c.before("page"); err != nil {
			return err
		}
		if pgno == 1 {
			data[18], data[19] = 1, 1
		}
		_, err := w.WriteAt(data, int64(pgno-1)*size)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.before("truncate"); err != nil {
		return err
	}
	return w.Truncate(int64(f.header.Commit) * size)
}

// clone makes a second copy of one that is whole.
func (c *localCopy) clone() (*localCopy, error) {
	d, err := newCopy(filepath.Dir(c.path), c.state.Lineage, c.state.Epoch)
	if err != nil {
		return nil, err
	}
	d.fresh, d.step = c.fresh, c.step
	if err := copyPlain(c.path, d.path); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	d.state = c.state
	d.state.Closed = false
	if err := d.save(false); err != nil {
		return nil, errors.Join(err, d.remove())
	}
	return d, nil
}

func copyPlain(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// close makes the copy outlive the machine's run.
func (c *localCopy) close() error {
	if c.state.Closed || c.state.TXID == 0 {
		return nil
	}
	if err := syncFile(c.path); err != nil {
		return err
	}
	return c.save(true)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// remove deletes the copy, its state first: without one the file is nothing.
func (c *localCopy) remove() error {
	var errs []error
	for _, path := range []string{c.path + stateSuffix, c.path} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
