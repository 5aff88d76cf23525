package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Machine says where a report was made. Rates of two reports compare only when
// their machines do.
type Machine struct {
	OS         string  `json:"os"`
	Arch       string  `json:"arch"`
	CPUs       int     `json:"cpus"`
	Go         string  `json:"go"`
	FsyncsPerS float64 `json:"fsyncs_per_s"` // of 4 KiB appends in the temporary directory
}

// measureMachine describes the machine and times the disk that dir is on.
func measureMachine(dir string) (Machine, error) {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()}
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return m, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	start, n := time.Now(), 0
	for time.Since(start) < 200*time.Millisecond {
		if _, err := f.Write(block); err != nil {
			return m, err
		}
		if err := f.Sync(); err != nil {
			return m, err
		}
		n++
	}
	m.FsyncsPerS = float64(int(float64(n) / time.Since(start).Seconds()))
	return m, nil
}
