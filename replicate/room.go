package replicate

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// errNoRoom is why a stream that gave way does not go on yet.
var errNoRoom = errors.New("the disk is full: replication gave way, and goes on by itself when there is room for a copy of the database")

// resumeRoom is the free space, in bytes besides the copies, with which a
// stream goes on that gave way; a quarter of the disk where that is less.
const resumeRoom = 64 << 20

// GiveWay lets go of the WAL, so that the application can empty it by a
// checkpoint of its own. It is for a full disk: the stream copies the WAL to
// the same disk before it lets it be emptied, and would fill what is left. The
// application calls it between two transactions. The stream goes on by itself
// when there is room, with a new copy of the whole database, because it has not
// seen what happened in between.
func (p *Primary) GiveWay() {
	p.mu.Lock()
	s := p.stream
	p.mu.Unlock()
	if s == nil || !s.opened() {
		return // nobody holds on to the WAL
	}
	s.mu.Lock()
	s.interrupt()
	s.mu.Unlock()
	s.use.Lock()
	defer s.use.Unlock()
	if s.away {
		return
	}
	s.away = true
	p.boot.log.Error("replication gives way on a full disk", "dir", p.boot.files.dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing is to be copied or uploaded any more
	if err := s.db.Close(ctx); err != nil {
		p.boot.log.Debug("closed without the last copy", "err", err)
	}
}

// begin is called before a use of the database, and done after it. The context
// that begin returns ends when the stream has to give way.
func (s *stream) begin(ctx context.Context) (used context.Context, done func(), err error) {
	s.use.RLock()
	for s.away {
		s.use.RUnlock()
		if err := s.comeBack(); err != nil {
			return nil, nil, err
		}
		s.use.RLock()
	}
	used, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	stop := context.AfterFunc(s.opening, cancel)
	s.mu.Unlock()
	return used, func() { stop(); cancel(); s.use.RUnlock() }, nil
}

// comeBack opens the database again when there is room.
func (s *stream) comeBack() error {
	s.use.Lock()
	defer s.use.Unlock()
	if !s.away {
		return nil
	}
	f := &s.primary.boot.files
	free, total, err := spaceOf(f.dir)
	if err != nil {
		return fmt.Errorf("free space of the disk: %w", err)
	}
	// A copy beside the database, and one more where the replica is a folder.
	if need := 2*sizeOf(f.db) + min(resumeRoom, total/4); free < need {
		return fmt.Errorf("%w (%d bytes are free, %d are needed)", errNoRoom, free, need)
	}
	if err := s.open(); err != nil {
		return fmt.Errorf("open the stream: %w", err)
	}
	s.away = false
	s.primary.boot.log.Info("replication comes back, with a new copy of the database")
	return nil
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
