package s3server

import "syscall"

// dieWithParent lets the server end with a test binary that ends without its
// clean-ups, as one does that panics or runs out of time.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
