package replicate

import (
	"context"
	"fmt"
)

// readOnly is a store for one that only looks.
type readOnly struct{ store }

func (readOnly) put(_ context.Context, key string, _ []byte, _ condition) (string, error) {
	return "", fmt.Errorf("put %s: %w", key, errReadOnly)
}

func (readOnly) remove(_ context.Context, key string) error {
	return fmt.Errorf("remove %s: %w", key, errReadOnly)
}
