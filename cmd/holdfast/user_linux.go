package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"holdfast/node"
)

// identity is a user and a group by their numbers.
type identity struct{ uid, gid int }

// becomeUser gives the data directory to a user and makes this process that
// user for good. It needs root, which a container or a Fly machine starts with:
// a fresh volume belongs to root, and an image from scratch has no chown.
func becomeUser(name, data string) error {
	if name == "" {
		return nil
	}
	id, err := findUser(name)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		if os.Geteuid() == id.uid {
			return nil
		}
		return usagef("--user %s: only root can become another user, and this process is user %d; start it as root, or leave --user out", name, os.Geteuid())
	}
	if id.uid == 0 {
		return nil
	}
	if err := giveDirectory(data, id); err != nil {
		return fmt.Errorf("--user %s: %w", name, err)
	}
	if err := dropTo(id); err != nil {
		return fmt.Errorf("--user %s: %w", name, err)
	}
	return nil
}

// dropTo makes this process id for good, every thread of it.
func dropTo(id identity) error {
	if err := syscall.Setgroups([]int{id.gid}); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setgid(id.gid); err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	if err := syscall.Setuid(id.uid); err != nil {
		return fmt.Errorf("set user: %w", err)
	}
	return nil
}

// findUser reads a name, or UID[:GID], which needs no /etc/passwd.
func findUser(name string) (identity, error) {
	uid, gid, both := strings.Cut(name, ":")
	if !both {
		gid = uid
	}
	u, uerr := strconv.ParseUint(uid, 10, 31)
	g, gerr := strconv.ParseUint(gid, 10, 31)
	if uerr == nil && gerr == nil {
		return identity{int(u), int(g)}, nil
	}
	if both {
		return identity{}, usagef("--user %s: write it as a name, UID or UID:GID", name)
	}
	known, err := user.Lookup(name)
	if err != nil {
		return identity{}, usagef("--user %s: no such user (%v); make it, or give its number", name, err)
	}
	id := identity{}
	id.uid, uerr = strconv.Atoi(known.Uid)
	id.gid, gerr = strconv.Atoi(known.Gid)
	return id, errors.Join(uerr, gerr)
}

// giveDirectory makes the data directory and all in it id's. A directory that
// holds something else is refused: a mistaken --data must not hand a whole
// system over.
func giveDirectory(data string, id identity) (err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	ours := len(entries) == 0
	for _, e := range entries {
		name := e.Name()
		ours = ours || node.IsDataFile(name) || name == "lost+found" && len(entries) == 1
	}
	if !ours {
		return fmt.Errorf("%s holds files and none of them is Holdfast's; name the data directory with --data, or give it to the user yourself", data)
	}
	// Within a root no link leads out of the directory, whatever the user that
	// had it before has put there.
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) == id.uid && int(st.Gid) == id.gid {
			return nil
		}
		if d.Type().IsRegular() && st.Nlink > 1 {
			return fmt.Errorf("%s has another name elsewhere, so it is not given away", filepath.Join(data, path))
		}
		return root.Lchown(path, id.uid, id.gid)
	})
}
