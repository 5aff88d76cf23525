package replicate

import (
	"context"
	"errors"

	"github.com/benbjohnson/litestream"
)

// store is a root: a place in object storage, or a folder, that holds lock.json
// and one prefix an epoch. Keys are relative to it, with slashes.
type store interface {
	// get reads a small object. It returns errNoObject where there is none.
	get(ctx context.Context, key string) (object, error)
	// put writes a small object if cond holds, and returns its new version. It
	// returns errCondition if cond did not hold. After any other error it is
	// unknown whether the object was written.
	put(ctx context.Context, key string, data []byte, cond condition) (version string, err error)
	// remove deletes an object; one that is not there is no error.
	remove(ctx context.Context, key string) error
	// list returns the objects whose keys begin with prefix, in order.
	list(ctx context.Context, prefix string) ([]entry, error)
	// client returns Litestream's own client for the prefix of an epoch.
	client(prefix string) (litestream.ReplicaClient, error)
	// url names the root for people; it holds no secret.
	url() string
	// requests counts what the store itself sent; guards may share the counter.
	requests() *counter
	// close gives the root free for another process. Nothing may follow it.
	close() error
}

// object is a small object with its version, an ETag.
type object struct {
	data    []byte
	version string
}

// entry is an object in a list.
type entry struct {
	key  string
	size int64
}

// condition is what must hold for a put. The zero value is "no matter what".
type condition struct {
	version string // the object has this version
	absent  bool   // there is no object
}

var (
	errNoObject  = errors.New("no such object")
	errCondition = errors.New("the object was changed by another")
)
