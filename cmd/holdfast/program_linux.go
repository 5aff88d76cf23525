package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithUs makes the kernel kill cmd's process when this one is killed, which
// has no time left to do it. What the command started itself lives on.
//
// The kernel watches the thread that started the process, not its process
// (prctl(2), PR_SET_PDEATHSIG). Until done is called the caller's goroutine
// keeps that thread from ending.
func dieWithUs(cmd *exec.Cmd) (done func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}
