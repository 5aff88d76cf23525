package hrana_test

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchFiles watches directories, and returns a function that says what files
// were made in them, also those that are gone again.
func watchFiles(t testing.TB, dirs ...string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	for _, dir := range dirs {
		if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
			t.Fatal(err)
		}
	}
	return func() (names []string) {
		buf := make([]byte, 64<<10)
		for {
			n, err := unix.Read(fd, buf)
			if errors.Is(err, unix.EAGAIN) {
				return names
			}
			if err != nil {
				t.Fatal(err)
			}
			for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
				event := (*unix.InotifyEvent)(unsafe.Pointer(&b[0]))
				end := unix.SizeofInotifyEvent + int(event.Len)
				name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
				names = append(names, string(name))
				b = b[end:]
			}
		}
	}
}
