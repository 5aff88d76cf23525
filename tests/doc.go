// Package tests drives the real binary from outside, as an operator and a
// program would: processes, signals, HTTP and the command line. Of our own
// packages it imports only node/client, for the types of the wire.
//
// What needs more than Go (curl, a shell, the right to mount) is skipped
// where it is missing, unless HOLDFAST_CI=1 says that it must be there.
package tests
