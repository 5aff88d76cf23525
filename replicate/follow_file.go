package replicate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// errBadFile is returned for a file of the replica whose content is not what
// its name, its size or its checksum says.
var errBadFile = errors.New("a file of the replica is damaged")

const (
	// maxHeld is the largest file that is held in memory while it is applied, in
	// bytes; a larger one goes through a temporary file.
	maxHeld = 4 << 20
	// leastEnd is what follows the last page at least, in bytes: the end of an
	// empty index with its size, and the trailer.
	leastEnd = 1 + 8 + ltx.TrailerSize
	// mostIndexed is the most that a page can need in the index, in bytes.
	mostIndexed = 3 * binary.MaxVarintLen64

	fetchPattern = "fetched-*.tmp"
)

// fetchedFile is a file of the replica, read to its end and verified. Nothing of it
// may be applied before: what arrives of a file that breaks off would tear the
// copy.
type fetchedFile struct {
	info   *ltx.FileInfo
	header ltx.Header
	size   int64
	held   []byte
	temp   string // the file that has it instead of held
}

// fetchFile reads a file of the replica and verifies it. A size of 0 in info is
// not known. Errors: those of the client, os.ErrNotExist, errBadFile, and of the
// local disk.
func fetchFile(ctx context.Context, client litestream.ReplicaClient, info *ltx.FileInfo, dir string) (*fetchedFile, error) {
	r, err := client.OpenLTXFile(ctx, info.Level, info.MinTXID, info.MaxTXID, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("fetch %s of level %d: %w", ltx.FormatFilename(info.MinTXID, info.MaxTXID), info.Level, err)
	}
	defer r.Close()
	f := &fetchedFile{info: info}
	if err := f.read(r, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("fetch %s of level %d: %w", ltx.FormatFilename(info.MinTXID, info.MaxTXID), info.Level, err), f.close())
	}
	if err := f.verify(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: level %d, %s: %w", errBadFile, info.Level, ltx.FormatFilename(info.MinTXID, info.MaxTXID), err), f.close())
	}
	return f, nil
}

// read takes in all of r, into memory where it is small.
func (f *fetchedFile) read(r io.Reader, dir string) error {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, maxHeld+1))
	if err != nil {
		return err
	}
	if f.size = n; n <= maxHeld {
		f.held = buf.Bytes()
		return nil
	}
	w, err := os.CreateTemp(dir, fetchPattern)
	if err != nil {
		return err
	}
	f.temp = w.Name()
	f.size, err = io.Copy(w, io.MultiReader(&buf, r))
	return errors.Join(err, w.Close())
}

// close gives free what the file takes.
func (f *fetchedFile) close() error {
	f.held = nil
	if f.temp == "" {
		return nil
	}
	return os.Remove(f.temp)
}

// verify reads the whole file once.
func (f *fetchedFile) verify() error {
	if f.info.Size > 0 && f.size != f.info.Size {
		return fmt.Errorf("it has %d bytes of %d", f.size, f.info.Size)
	}
	var count, last uint32
	err := f.pages(func(pgno uint32, _ []byte) error {
		h := &f.header
		if pgno <= last || pgno > h.Commit || pgno == h.LockPgno() {
			return fmt.Errorf("page %d of %d, after %d", pgno, h.Commit, last)
		}
		count, last = count+1, pgno
		return nil
	})
	if err != nil {
		return err
	}
	h := &f.header
	whole := h.Commit
	if h.LockPgno() <= h.Commit {
		whole--
	}
	switch {
	case h.MinTXID != f.info.MinTXID || h.MaxTXID != f.info.MaxTXID:
		return fmt.Errorf("it holds the transactions %s to %s", h.MinTXID, h.MaxTXID)
	case h.Commit == 0:
		return errors.New("it empties the database")
	case h.IsSnapshot() && count != whole:
		return fmt.Errorf("it has %d of %d pages", count, whole)
	}
	return nil
}

// pages calls do with every page in order, and then compares the checksum. The
// data is do's until it returns, to change it if it likes.
//
// The decoder trusts the sizes in a file: it would ask for 4 GB where a bit is
// wrong, and fails on an end that is cut off. So they are looked at first.
func (f *fetchedFile) pages(do func(pgno uint32, data []byte) error) error {
	r, stop, err := f.open()
	if err != nil {
		return err
	}
	defer stop()
	counted := &counting{r: r}
	br := bufio.NewReaderSize(counted, 256<<10)
	dec := ltx.NewDecoder(br)
	if err := dec.DecodeHeader(); err != nil {
		return err
	}
	f.header = dec.Header()
	size := f.header.PageSize
	data := make([]byte, size)
	for {
		head, err := br.Peek(ltx.PageHeaderSize + 4)
		if err != nil {
			return fmt.Errorf("page header: %w", noEOF(err))
		}
		if pgno := binary.BigEndian.Uint32(head); pgno != 0 {
			flags, n := binary.BigEndian.Uint16(head[4:]), binary.BigEndian.Uint32(head[ltx.PageHeaderSize:])
			if flags != ltx.PageHeaderFlagSize || n > size+size/255+16 { // what LZ4 needs at most
				return fmt.Errorf("page %d has flags %#x and %d bytes", pgno, flags, n)
			}
		}
		var page ltx.PageHeader
		if err := dec.DecodePage(&page, data); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return noEOF(err)
		}
		if err := do(page.Pgno, data); err != nil {
			return err
		}
	}
	if left := f.size - counted.n + int64(br.Buffered()); left < leastEnd || left > leastEnd+8+int64(dec.PageN())*mostIndexed {
		return fmt.Errorf("%d bytes follow the last page", left)
	}
	return noEOF(dec.Close())
}

func (f *fetchedFile) open() (r io.Reader, stop func(), err error) {
	if f.temp == "" {
		return bytes.NewReader(f.held), func() {}, nil
	}
	file, err := os.Open(f.temp)
	if err != nil {
		return nil, nil, err
	}
	return file, func() { _ = file.Close() }, nil // it was only read
}

// counting counts what was read.
type counting struct {
	r io.Reader
	n int64
}

// Read reads on.
func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// noEOF keeps the end of a file that comes too early from looking like the end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
