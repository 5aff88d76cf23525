//go:build !linux

package s3server

import "syscall"

// dieWithParent does nothing where the kernel has no such thing.
func dieWithParent() *syscall.SysProcAttr { return nil }
