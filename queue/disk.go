package queue

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
)

const (
	maxWatermark = 256 << 20
	maxReserve   = 8 << 20
	minReserve   = 64 << 10  // a smaller rest is given up at once
	lookEvery    = 250       // ms between two looks at the free space
	fillEvery    = 60_000    // ms between two tries to fill a reserve that cannot be
	minRoom      = 256 << 10 // free bytes that claims and acks can go on with
)

// disk watches the space of the disk that the file is on. Under the watermark
// new jobs are refused. Beside the file lies a reserve of a few MiB that is
// given up by and by when the disk is full all the same, so that claims and
// acks have room until a person comes.
type disk struct {
	dir       string
	reserve   string // path
	size      int64  // that the reserve shall have
	held      int64  // that it has
	watermark int64  // negative: the disk is not watched
	log       *slog.Logger
	stat      func(dir string) (space, error)

	lookedAt int64 // wall clock, ms
	left     int64 // bytes that were free then, less what was written since
	isFull   bool
	weak     bool  // the reserve cannot be filled although there is room
	triedAt  int64 // wall clock, ms: to fill it
}

// space is what there is of a disk.
type space struct {
	free, total int64  // bytes
	network     string // the kind of network file system, if it is one
}

func openDisk(path string, watermark int64, log *slog.Logger) (*disk, error) {
	dir := filepath.Dir(path)
	s, err := statDisk(dir)
	if err != nil {
		return nil, err
	}
	if s.network != "" {
		return nil, fmt.Errorf("%w: %s is on %s", ErrNetworkDisk, dir, s.network)
	}
	if watermark == 0 {
		watermark = min(maxWatermark, s.total/20)
	}
	d := &disk{dir: dir, reserve: path + "-reserve", size: min(maxReserve, s.total/16), watermark: watermark, log: log, stat: statDisk}
	if info, err := os.Stat(d.reserve); err == nil {
		d.held = info.Size()
	}
	for d.free() < minRoom && d.spend() { // the database needs some room to open
	}
	return d, nil
}

// full reports whether new jobs have to be refused. It looks at the disk at
// most every lookEvery ms of now.
func (d *disk) full(now int64) bool {
	if now-d.lookedAt >= lookEvery || now < d.lookedAt || d.left < d.watermark {
		d.look(now)
	}
	return d.isFull
}

// writing says that new jobs of so many bytes are about to be written: the file
// and its WAL grow by about three times as much.
func (d *disk) writing(bytes int) { d.left -= 3 * int64(bytes) }

// look finds out how much is free, and fills the reserve up if it can.
func (d *disk) look(now int64) {
	if d.watermark < 0 {
		return
	}
	d.lookedAt = now
	s, err := d.stat(d.dir)
	if err != nil {
		d.log.Error("the free space of the disk is unknown; new jobs are refused", "dir", d.dir, "err", err)
		d.isFull = true // the directory may be gone
		return
	}
	d.left = s.free
	if d.held < d.size && s.free-(d.size-d.held) >= d.watermark && (!d.weak || now-d.triedAt >= fillEvery) {
		d.triedAt = now
		d.fill()
	}
	was := d.isFull
	// While the reserve is not whole, what is free is what claims and acks will
	// need: new jobs would use it up.
	d.isFull = s.free < d.watermark || d.held < d.size && !d.weak
	if d.isFull != was {
		d.log.Warn("free space of the disk", "dir", d.dir, "bytes", s.free, "watermark", d.watermark, "new_jobs_refused", d.isFull)
	}
}

// free returns the free bytes of the disk, 0 when they are not known.
func (d *disk) free() int64 {
	s, err := d.stat(d.dir)
	if err != nil {
		return 0
	}
	return s.free
}

// fill brings the reserve to its size. It is made of random bytes: a file of
// zeros would take no space on a file system that compresses.
func (d *disk) fill() {
	f, err := os.OpenFile(d.reserve, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = io.CopyN(f, rand.Reader, d.size-d.held)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		if !d.weak { // such as a limit on the size of files
			d.log.Warn("no disk space could be reserved", "path", d.reserve, "err", err)
		}
		d.weak = true
		d.shrink(d.held)
		return
	}
	d.held, d.weak = d.size, false
}

// spend gives half of the reserve to the database, and the rest when it is
// small. It returns false when there is none left.
func (d *disk) spend() bool {
	if d.held == 0 {
		return false
	}
	size := d.held / 2
	if size < minReserve {
		size = 0
	}
	d.shrink(size)
	d.lookedAt = 0 // look again before the next job
	return true
}

func (d *disk) shrink(size int64) {
	if err := os.Truncate(d.reserve, size); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("the reserve cannot be cut", "path", d.reserve, "err", err)
	}
	d.held = size
}
