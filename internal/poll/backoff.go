package poll

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Waits double from firstBackoff to maxBackoff. The first is short because most failures are; the last is a rate
// that a failing registry can bear from many clusters.
const (
	firstBackoff = 2 * time.Second
	maxBackoff   = 5 * time.Minute
)

// Backoff returns the wait after a number of failures in a row, with a jitter of 20 %, so that catalogs that
// failed together do not retry together.
func Backoff(failures int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstBackoff),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxBackoff),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0),
	)
	wait := b.NextBackOff()
	for range min(failures-1, 16) { // 16 doublings exceed maxBackoff
		wait = b.NextBackOff()
	}
	return wait
}
