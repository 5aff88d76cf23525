//go:build unix

package main

import "syscall"

// keepPrivate lets no other user read what this process writes: databases and
// copies hold payloads.
func keepPrivate() { syscall.Umask(0o077) }
