package eventually

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestWithin(t *testing.T) {
	errNotYet := errors.New("not yet")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		limit  time.Duration
		check  func(calls int) error
		want   error
		atMost int // calls
	}{
		"third call succeeds": {t.Context(), time.Minute, func(calls int) error {
			if calls < 3 {
				return errNotYet
			}
			return nil
		}, nil, 3},
		"limit ends":      {t.Context(), 20 * time.Millisecond, func(int) error { return errNotYet }, errNotYet, 20},
		"context ends":    {canceled, time.Minute, func(int) error { return errNotYet }, errNotYet, 1},
		"state is over":   {t.Context(), time.Minute, func(int) error { return fmt.Errorf("exited: %w", ErrNever) }, ErrNever, 1},
		"no limit at all": {t.Context(), 0, func(int) error { return nil }, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := Within(test.ctx, test.limit, func() error { calls++; return test.check(calls) })
			if !errors.Is(err, test.want) || calls == 0 || calls > test.atMost {
				t.Errorf("got %v after %d calls, want %v", err, calls, test.want)
			}
		})
	}
}
