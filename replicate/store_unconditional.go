package replicate

import (
	"context"
	"errors"
)

// unconditional is a store whose provider ignores or refuses conditions. It
// compares before it puts, which finds a change that was made a while ago and
// not one that is made at the same moment.
type unconditional struct{ store }

func (u unconditional) put(ctx context.Context, key string, data []byte, cond condition) (string, error) {
	if cond != (condition{}) {
		now, err := u.get(ctx, key)
		switch {
		case errors.Is(err, errNoObject):
			if !cond.absent {
				return "", errCondition
			}
		case err != nil:
			return "", err
		case cond.absent || now.version != cond.version:
			return "", errCondition
		}
	}
	return u.store.put(ctx, key, data, condition{})
}
