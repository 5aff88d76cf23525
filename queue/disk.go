package queue

import (
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
	lookEvery    = 250       // ms between two looks at the free space
	minRoom      = 256 << 10 // free bytes that do without the reserve for a while
)

// disk watches the space of the disk that the file is on. Under the watermark
// new jobs are refused. Beside the file lies a reserve of a few MiB that is
// given up when the disk is full all the same, so that claims and acks have
// room until a person comes.
type disk struct {
	dir       string
	reserve   string // path
	size      int64  // of the reserve
	watermark int64
	log       *slog.Logger
	stat      func(dir string) (free, total int64, network string, err error)

	lookedAt int64 // wall clock, ms
	isFull   bool
	held     int64 // bytes of the reserve that are there
}

func openDisk(path string, watermark int64, log *slog.Logger) (*disk, error) {
	dir := filepath.Dir(path)
	free, total, kind, err := statDisk(dir)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		return nil, fmt.Errorf("%w: %s is on %s", ErrNetworkDisk, dir, kind)
	}
	if watermark == 0 {
		watermark = min(maxWatermark, total/20)
	}
	d := &disk{dir: dir, reserve: path + "-reserve", size: min(maxReserve, total/16), watermark: watermark, log: log, stat: statDisk}
	if info, err := os.Stat(d.reserve); err == nil {
		d.held = info.Size()
	}
	if free < d.watermark/2 { // the database needs some room to open
		d.release()
	}
	return d, nil
}

// full reports whether new jobs have to be refused. It looks at the disk at
// most every lookEvery ms of now.
func (d *disk) full(now int64) bool {
	if d.watermark < 0 {
		return false
	}
	if now-d.lookedAt < lookEvery && now >= d.lookedAt {
		return d.isFull
	}
	d.look(now)
	return d.isFull
}

// look finds out how much is free, and lays the reserve down if it can.
func (d *disk) look(now int64) {
	d.lookedAt = now
	free, _, _, err := d.stat(d.dir)
	if err != nil {
		d.log.Error("the free space of the disk is unknown", "dir", d.dir, "err", err)
		return
	}
	d.hold(free)
	was := d.isFull
	// Without the reserve, what is free is what claims and acks will need: new
	// jobs would use it up.
	d.isFull = free < d.watermark || d.held == 0
	if d.isFull != was {
		d.log.Warn("free space of the disk", "dir", d.dir, "bytes", free, "watermark", d.watermark, "new_jobs_refused", d.isFull)
	}
}

// hold lays the reserve down, when it is not there in full and leaves enough
// free.
func (d *disk) hold(free int64) {
	if d.held >= d.size || d.watermark < 0 || free+d.held < d.watermark+d.size {
		return
	}
	d.lay(d.size)
}

// holdHalf lays down a reserve of half of what is free on a full disk, for the
// next time that nothing is.
func (d *disk) holdHalf() {
	if d.watermark >= 0 {
		d.lay(min(d.size, d.free()/2))
	}
}

// free returns the free bytes of the disk, 0 when they are not known.
func (d *disk) free() int64 {
	free, _, _, err := d.stat(d.dir)
	if err != nil {
		return 0
	}
	return free
}

func (d *disk) lay(size int64) {
	if err := writeReserve(d.reserve, size); err != nil {
		d.log.Warn("no disk space could be reserved", "path", d.reserve, "err", err)
		_ = os.Remove(d.reserve) // it may not exist
		d.held = 0
		return
	}
	d.held = size
}

func writeReserve(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, zeros{}, size) // real blocks: a file with a hole reserves nothing
	return errors.Join(err, f.Close())
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// release gives the reserve's space to the database.
func (d *disk) release() {
	if d.held > 0 {
		if err := os.Remove(d.reserve); err != nil {
			d.log.Warn("the reserve cannot be freed", "path", d.reserve, "err", err)
		}
	}
	d.held = 0
	d.lookedAt = 0
}
