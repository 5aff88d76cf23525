package replicate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

const lockKey = "lock.json"

// Lock is lock.json at the root: who writes there, in which epoch, and which
// epoch is the truth. It changes by compare-and-swap only.
type Lock struct {
	Version int    `json:"version"` // of this format, 1
	Lineage string `json:"lineage"` // of the database; a root holds one for ever
	Epoch   int64  `json:"epoch"`   // the last one that was given out; 0: none yet
	Session string `json:"session"` // who has it: one run of one node
	Ready   int64  `json:"ready"`   // the epoch whose prefix is complete; 0: none yet
	Node    string `json:"node"`
	URL     string `json:"url"` // where that node answers
	Seq     int64  `json:"seq"` // of the database, when ready or closed
	TXID    uint64 `json:"txid"`
	Schema  int    `json:"schema"`
	Beat    int64  `json:"beat"`   // counts the writes
	Nonce   string `json:"nonce"`  // of this write, so that no two are equal, not even two tries of one
	Closed  bool   `json:"closed"` // given up; the next node need not wait
}

const lockVersion = 1

// held is a lock.json that was read or written, with its version.
type held struct {
	Lock
	version string
}

// Errors on which a caller branches.
var (
	// ErrNoLock is returned when a root has no lock.json. Such a root is never
	// begun by itself: it may be a typing error, or a bucket that lost its data.
	ErrNoLock = errors.New("there is no lock.json")
	// ErrHeld is returned when another node holds the root.
	ErrHeld = errors.New("another node holds the root")
	// ErrForeign is returned when the local file belongs to another root.
	ErrForeign = errors.New("the database belongs to another root")
	// ErrNewer is returned when the root was written by a newer version.
	ErrNewer = errors.New("the root was written by a newer version of holdfast")
	// ErrFenced is returned, and Primary.Lost closed, when another node has
	// taken the root, or its lock.json is gone.
	ErrFenced = errors.New("this node does not hold the root any more")
	// ErrExists is returned by Init when the root has been begun before.
	ErrExists = errors.New("the root has a lock.json already")
)

func readLock(ctx context.Context, s store) (held, error) {
	o, err := s.get(ctx, lockKey)
	if errors.Is(err, errNoObject) {
		return held{}, fmt.Errorf("%w in %s: no root has begun there; name the right one (--config FILE, and in it bucket and path), or begin a new one by `holdfast init --config FILE`", ErrNoLock, s.url())
	}
	if err != nil {
		return held{}, fmt.Errorf("read lock.json: %w", err)
	}
	h := held{version: o.version}
	if err := json.Unmarshal(o.data, &h.Lock); err != nil || h.Lineage == "" || h.Epoch < 0 || h.Ready < 0 || h.Ready > h.Epoch {
		return held{}, fmt.Errorf("%w that can be read in %s (%d bytes); put the right one back, or adopt a restored file into a new root", ErrNoLock, s.url(), len(o.data))
	}
	if h.Version > lockVersion {
		return held{}, fmt.Errorf("%w: lock.json has format %d, this program knows %d", ErrNewer, h.Version, lockVersion)
	}
	return h, nil
}

// swap replaces old by next. When the answer is lost it reads what is there: the
// nonce in it says whether this write won. An earlier try of the same change
// that won without an answer is not this one: a lease counts from the moment
// that its write was sent, and others saw that one long ago.
func swap(ctx context.Context, s store, old held, next Lock) (held, error) {
	next.Version, next.Beat, next.Nonce = lockVersion, old.Beat+1, newID()
	data, err := json.MarshalIndent(next, "", " ")
	if err != nil {
		return held{}, err
	}
	cond := condition{version: old.version}
	if old.version == "" {
		cond = condition{absent: true}
	}
	version, err := s.put(ctx, lockKey, data, cond)
	if err == nil {
		return held{next, version}, nil
	}
	if errors.Is(err, errCondition) {
		return held{}, fmt.Errorf("write lock.json: %w", err)
	}
	now, rerr := readLock(ctx, s)
	switch {
	case rerr == nil && now.Lock == next:
		return now, nil
	case rerr == nil && now.version != old.version: // then this write never wins
		err = fmt.Errorf("%w: %w", errCondition, err)
	}
	return held{}, fmt.Errorf("write lock.json: %w", err)
}

func newID() string {
	b := make([]byte, 16)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// prefixOf is where the primary of an epoch writes, and nobody else, ever.
func prefixOf(epoch int64) string { return fmt.Sprintf("e%08d", epoch) }

// epochInfo is epoch.json in a prefix, written once its base is complete.
type epochInfo struct {
	Epoch      int64  `json:"epoch"`
	Parent     int64  `json:"parent"` // 0: none
	ParentTXID uint64 `json:"parent_txid"`
	ReadyAtMS  int64  `json:"ready_at_ms"`
}

func writeEpoch(ctx context.Context, s store, e epochInfo) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.put(ctx, prefixOf(e.Epoch)+"/epoch.json", data, condition{})
	return err
}
