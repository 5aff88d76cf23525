//go:build !unix

package main

import "os/exec"

// ownGroup leaves cmd as it is: where there are no process groups, the end of
// its context kills the process itself.
func ownGroup(*exec.Cmd) {}

// killGroup has nothing to do: see ownGroup.
func killGroup(*exec.Cmd) {}
