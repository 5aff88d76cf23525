//go:build !faults || !unix

package replicate

// fault is a named point at which the build for tests can end, stop or fail: see
// faults_on.go. Here it is nothing.
func fault(string) error { return nil }
