//go:build !linux

package hrana_test

import (
	"os"
	"testing"
)

// watchFiles returns a function that says what files are in directories that
// were not there before.
func watchFiles(t testing.TB, dirs ...string) func() []string {
	t.Helper()
	list := func() map[string]bool {
		all := map[string]bool{}
		for _, dir := range dirs {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				all[dir+"/"+e.Name()] = true
			}
		}
		return all
	}
	before := list()
	return func() (names []string) {
		for name := range list() {
			if !before[name] {
				names = append(names, name)
			}
		}
		return names
	}
}
