package queue

import "golang.org/x/sys/unix"

// Network file systems by the magic numbers of statfs(2), from linux/magic.h
// and the kernel's own sources. FUSE is not among them: it may well be local.
var networkDisks = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.V9FS_MAGIC:        "9P",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x0bd00bd0:             "Lustre",
	0x01161970:             "GFS2",
}

// statDisk returns what we may still write to the disk of dir, and its size.
func statDisk(dir string) (space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return space{}, err
	}
	return space{free: int64(s.Bavail) * s.Bsize, total: int64(s.Blocks) * s.Bsize, network: networkDisks[int64(uint32(s.Type))]}, nil
}
