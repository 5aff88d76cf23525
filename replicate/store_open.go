package replicate

import (
	"context"
	"fmt"
	"log/slog"
)

// openStore opens the root that r describes, for one that may write to it. For
// a folder it takes the folder's lock, and returns [ErrRootLocked] where
// another process has it; for a bucket it sends nothing yet, so that a node
// can start while the bucket is out of reach.
func openStore(ctx context.Context, r Replica, logger *slog.Logger) (store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open the replica: %w", err)
	}
	switch r.Type {
	case "file":
		return openFolder(r.Path, logger)
	case "s3":
		return newS3Store(r, logger)
	}
	return nil, fmt.Errorf("open the replica: unknown type %q", r.Type)
}

// openStoreToRead is openStore for one that only looks: it takes no lock, makes
// no folder, and refuses to put and to remove.
func openStoreToRead(ctx context.Context, r Replica, logger *slog.Logger) (store, error) {
	if r.Type == "file" {
		return readFolder(r.Path, logger), nil
	}
	s, err := openStore(ctx, r, logger)
	if err != nil {
		return nil, err
	}
	return readOnly{s}, nil
}
