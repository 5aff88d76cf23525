package tests_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"holdfast/node/client"
)

const smallDisk = 16 << 20

// mountSmallDisk mounts a file system of 16 MiB for the time of the test.
func mountSmallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("holdfast-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)); err != nil {
		skip(t, "mounting a small disk is not permitted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill writes a file that leaves free bytes on its disk; with 0 it writes
// until the disk takes no more.
func fill(t *testing.T, path string, free uint64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for freeBytes(t, path) > free {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil && !errors.Is(err, io.ErrShortWrite) {
			t.Fatal(err)
		}
	}
}

func freeBytes(t *testing.T, path string) uint64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Bavail * uint64(st.Bsize)
}

// TestFullDisk fills the disk under a node. What is there must go on, what is
// new must be refused, and it must be over when space is free.
func TestFullDisk(t *testing.T) {
	for name, free := range map[string]uint64{
		"below the watermark": 400 << 10,
		"to the last byte":    0,
	} {
		t.Run(name, func(t *testing.T) {
			disk := mountSmallDisk(t)
			n := serve(t, filepath.Join(disk, "data"))
			// Enough for the claims and acks to write several times what is free.
			const jobs = 500
			for range jobs / 100 {
				n.post("/v1/jobs", slices.Repeat([]client.Spec{{Queue: "q"}}, 100), nil)
			}
			held := n.claim("q", 20)
			ballast := filepath.Join(disk, "ballast")
			fill(t, ballast, free)

			enqueue := func() error {
				return call(http.DefaultClient, http.MethodPost, n.url+"/v1/jobs", client.Spec{Queue: "q", Payload: []byte(`"new"`)}, nil)
			}
			taken := jobs
			eventually(t, 2*time.Second, "an enqueue is refused", func() bool {
				err := enqueue()
				if err == nil {
					taken++ // the node had not looked at the disk yet
				}
				return err != nil
			})
			wantError(t, enqueue(), 507, client.CodeDiskFull, "disk")
			if done := workThrough(n, held); done != taken {
				t.Errorf("%d of %d jobs were done on the full disk", done, taken)
			}
			wantError(t, enqueue(), 507, client.CodeDiskFull)

			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			eventually(t, 5*time.Second, "an enqueue works again", func() bool { return enqueue() == nil })
			if len(n.claim("q", 10)) == 0 {
				t.Error("the new job cannot be claimed")
			}
			// The replica, which is on the same disk, had to give way.
			n.synced()
			if code := n.terminate(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			checkDatabase(t, n.databasePath())
			if code, _, stderr := n.cli("replica", "verify", "--data", n.dir); code != 0 {
				t.Errorf("verify: exit code %d: %s", code, stderr)
			}
		})
	}
}

// workThrough acks the jobs that are held, claims the others one by one and
// acks them, and returns how many acks were taken.
func workThrough(n *node, held []client.Claimed) int {
	n.t.Helper()
	done := 0
	for len(held) > 0 {
		for _, job := range held {
			n.post("/v1/jobs/"+job.ID+"/ack", client.Ack{Lease: job.Lease}, nil)
			done++
		}
		held = n.claim("q", 1)
	}
	return done
}
