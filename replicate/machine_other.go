//go:build !unix

package replicate

// bootID and inodeOf are not known here: each boot is taken as one after a
// crash of the machine, which is safe and uploads a base.
func bootID() string        { return "" }
func inodeOf(string) string { return "" }
