// Package eventually waits for a state that other goroutines or processes bring about.
package eventually

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	limit   = time.Minute
	longest = 50 * time.Millisecond // between two checks
)

// ErrNever ends a wait at once if the error of a check wraps it.
var ErrNever = errors.New("the state cannot occur any more")

// Holds fails the test if condition is still false after a minute.
func Holds(t testing.TB, state string, condition func() bool) {
	t.Helper()
	Succeeds(t, state, func() error {
		if !condition() {
			return errors.New("it does not hold")
		}
		return nil
	})
}

// Succeeds fails the test if check still returns an error after a minute. Cleanup functions may call it.
func Succeeds(t testing.TB, state string, check func() error) {
	t.Helper()
	if err := Within(context.Background(), limit, check); err != nil {
		t.Fatalf("waiting until %s: %v", state, err)
	}
}

// Within calls check, at least once, until it returns nil, and returns its last error if the limit or ctx ends first.
func Within(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, longest) {
		err := check()
		if err == nil || errors.Is(err, ErrNever) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", limit, err)
		case <-time.After(pause):
		}
	}
}
