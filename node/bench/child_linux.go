package bench

import "syscall"

// dieWithParent makes the kernel end a child whose parent was killed without a
// chance to clean up.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
