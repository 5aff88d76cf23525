//go:build unix

package replicate

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// bootID names the machine's present run; empty where it is not known.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// inodeOf names a directory on this machine; a copy of it has another name.
func inodeOf(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", s.Dev, s.Ino)
	}
	return ""
}
