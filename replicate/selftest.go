package replicate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// errNoConditionalWrites is returned when a store takes a put although its
// condition does not hold, or knows no conditions. No lease can be built on it.
var errNoConditionalWrites = errors.New("the object store has no working conditional writes")

// selfTest tries on scratch keys whether the store compares before it puts. An
// error other than errNoConditionalWrites says that it could not be found out,
// or, as a *RemoteError, that the key lacks a right.
func selfTest(ctx context.Context, s store) (err error) {
	key := ".selftest-" + rand.Text()
	race := key + "-race"
	defer func() {
		// Whatever happened, and also when the caller stopped waiting: nothing
		// else ever removes them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		for _, k := range []string{key, race} {
			if removed := s.remove(ctx, k); err == nil {
				err = removed
			}
		}
	}()
	if err := testConditions(ctx, s, key); err != nil {
		return fmt.Errorf("test of the object store: %w", err)
	}
	if err := testRace(ctx, s, race); err != nil {
		return fmt.Errorf("test of the object store: %w", err)
	}
	return nil
}

// testConditions makes one put after the other, every second one wrong.
func testConditions(ctx context.Context, s store, key string) error {
	// Two that look like versions but are of nothing that was ever there.
	const never, neither = `"00000000000000000000000000000000"`, `"0123456789abcdef0123456789abcdef"`
	if err := refuses(ctx, s, key, condition{version: never}, "If-Match on an object that is not there"); err != nil {
		return err
	}
	first, err := takes(ctx, s, key, condition{absent: true}, "If-None-Match on an object that is not there")
	if err != nil {
		return err
	}
	if err := refuses(ctx, s, key, condition{absent: true}, "If-None-Match on an object that is there"); err != nil {
		return err
	}
	if err := refuses(ctx, s, key, condition{version: neither}, "If-Match with a wrong version"); err != nil {
		return err
	}
	if _, err := takes(ctx, s, key, condition{version: first}, "If-Match with the right version"); err != nil {
		return err
	}
	return refuses(ctx, s, key, condition{version: first}, "If-Match with the version before the last")
}

// takes puts what the store should take.
func takes(ctx context.Context, s store, key string, cond condition, what string) (string, error) {
	version, err := s.put(ctx, key, []byte(rand.Text()), cond)
	if errors.Is(err, errCondition) || isNotImplemented(err) {
		return "", fmt.Errorf("%w: it refused %s", errNoConditionalWrites, what)
	}
	return version, err
}

// refuses puts what the store should not take.
func refuses(ctx context.Context, s store, key string, cond condition, what string) error {
	_, err := s.put(ctx, key, []byte(rand.Text()), cond)
	switch {
	case err == nil:
		return fmt.Errorf("%w: it took %s", errNoConditionalWrites, what)
	case errors.Is(err, errCondition):
		return nil
	case isNotImplemented(err):
		return fmt.Errorf("%w: it refused %s", errNoConditionalWrites, what)
	}
	return err
}

// testRace lets several put the same object at once. A store that looks first
// and writes then, without a lock over both, takes more than one.
func testRace(ctx context.Context, s store, key string) error {
	const racers = 8
	var (
		mu  sync.Mutex
		won int
	)
	group, ctx := errgroup.WithContext(ctx)
	for range racers {
		group.Go(func() error {
			_, err := s.put(ctx, key, []byte(rand.Text()), condition{absent: true})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
				return nil
			case errors.Is(err, errCondition):
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if won != 1 {
		return fmt.Errorf("%w: of %d at once with If-None-Match it took %d", errNoConditionalWrites, racers, won)
	}
	return nil
}
