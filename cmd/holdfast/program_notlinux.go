//go:build !linux

package main

import "os/exec"

// dieWithUs has nothing to offer here: only Linux kills a process with the one
// that started it.
func dieWithUs(*exec.Cmd) (done func()) { return func() {} }
