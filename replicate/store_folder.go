package replicate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/file"
	"github.com/gofrs/flock"
)

// ErrRootLocked is returned when another process has the folder of the replica.
var ErrRootLocked = errors.New("another process uses the folder of the replica")

// errReadOnly is returned when a store that was opened to read should write.
var errReadOnly = errors.New("the replica was opened to read only")

const (
	folderLock = ".lock"
	tempPrefix = ".tmp-" // of files that are not complete yet
)

// folderStore is a root in the file system.
type folderStore struct {
	root    string
	logger  *slog.Logger
	lock    *flock.Flock // nil: opened to read
	counted counter

	mu sync.Mutex // makes a comparison and the put after it one step
}

// openFolder makes the folder if need be and takes its lock.
func openFolder(root string, logger *slog.Logger) (*folderStore, error) {
	if root == "" {
		return nil, errors.New("open the replica: its folder has no name")
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("open the replica: %w", err)
	}
	name := filepath.Join(root, folderLock)
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	if !locked {
		return nil, fmt.Errorf("lock %s: %w", name, ErrRootLocked)
	}
	return &folderStore{root: root, logger: logger, lock: lock}, nil
}

// readFolder opens a folder to look into it, whoever has its lock.
func readFolder(root string, logger *slog.Logger) *folderStore {
	return &folderStore{root: root, logger: logger}
}

func (f *folderStore) url() string { return "file://" + filepath.ToSlash(f.root) }

func (f *folderStore) requests() *counter { return &f.counted }

func (f *folderStore) close() error {
	if f.lock == nil {
		return nil
	}
	// The file stays: to remove it would let two processes lock two files.
	if err := f.lock.Close(); err != nil {
		return fmt.Errorf("unlock %s: %w", f.lock.Path(), err)
	}
	return nil
}

func (f *folderStore) client(prefix string) (litestream.ReplicaClient, error) {
	dir, err := f.path(prefix)
	if err != nil {
		return nil, err
	}
	c := file.NewReplicaClient(dir)
	c.SetLogger(f.logger)
	return c, nil
}

// path returns the file of a key, which must not lead out of the root.
func (f *folderStore) path(key string) (string, error) {
	name := filepath.FromSlash(key)
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("key %q leads out of the replica", key)
	}
	return filepath.Join(f.root, name), nil
}

func (f *folderStore) get(ctx context.Context, key string) (object, error) {
	if err := ctx.Err(); err != nil {
		return object{}, fmt.Errorf("get %s: %w", key, err)
	}
	name, err := f.path(key)
	if err != nil {
		return object{}, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return object{}, fmt.Errorf("get %s: %w", key, errNoObject)
	}
	if err != nil {
		return object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return object{data: data, version: versionOf(data)}, nil
}

func (f *folderStore) put(ctx context.Context, key string, data []byte, cond condition) (string, error) {
	if f.lock == nil {
		return "", fmt.Errorf("put %s: %w", key, errReadOnly)
	}
	name, err := f.path(key)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if cond != (condition{}) {
		old, err := f.get(ctx, key)
		missing := errors.Is(err, errNoObject)
		if err != nil && !missing {
			return "", err
		}
		if cond.absent != missing || cond.version != old.version {
			return "", fmt.Errorf("put %s: %w", key, errCondition)
		}
	}
	if err := replaceFile(name, data); err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	return versionOf(data), nil
}

func (f *folderStore) remove(_ context.Context, key string) error {
	if f.lock == nil {
		return fmt.Errorf("remove %s: %w", key, errReadOnly)
	}
	name, err := f.path(key)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

// list walks the deepest folder that prefix names. A file that goes away
// meanwhile is left out.
func (f *folderStore) list(ctx context.Context, prefix string) ([]entry, error) {
	top, err := f.path(folderOf(prefix))
	if err != nil {
		return nil, err
	}
	var found []entry
	err = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.root, name)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if d.IsDir() || !strings.HasPrefix(key, prefix) || key == folderLock || unfinished(d.Name()) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		found = append(found, entry{key: key, size: info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	return found, nil
}

// folderOf returns the part of a prefix of keys that names a folder.
func folderOf(prefix string) string {
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		return prefix[:i]
	}
	return "."
}

// unfinished reports whether name is of a file that is still being written, by
// us or by Litestream's client.
func unfinished(name string) bool {
	return strings.HasPrefix(name, tempPrefix) || strings.HasSuffix(name, ".ltx.tmp")
}

// versionOf is the version of an object with this content, as an ETag is.
func versionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// replaceFile puts data where name is, wholly or not at all, and returns when it
// would survive a loss of power.
func replaceFile(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	if err := makeDurable(dir); err != nil {
		return err
	}
	temp := filepath.Join(dir, tempPrefix+rand.Text())
	w, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // what remains is skipped by list
		}
	}()
	_, err = w.Write(data)
	if err == nil {
		err = w.Sync()
	}
	if closed := w.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(temp, name); err != nil {
		return err
	}
	return syncDir(dir)
}

// makeDurable makes dir and syncs the folders that got a new one.
func makeDurable(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return fmt.Errorf("make %s: %w", dir, fs.ErrNotExist)
	}
	if err := makeDurable(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}
