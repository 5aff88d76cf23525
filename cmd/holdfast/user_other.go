//go:build !linux

package main

func becomeUser(name, _ string) error {
	if name == "" {
		return nil
	}
	return usagef("--user: only on Linux can a node become another user; start it as %s", name)
}
