//go:build !faults

package node

import "time"

// now is the clock of the node; that of the build for tests can be set, see
// faults_on.go.
func now() time.Time { return time.Now() }
