package poll

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// What waits grow from and to; they double in between. The first is short since most faults are, the last is what a
// registry that is down for a day can bear from many clusters.
const (
	firstBackoff = 2 * time.Second
	mostBackoff  = 5 * time.Minute
)

// Backoff is how long to wait after so many failures in a row: longer each time, and a fifth more or less at random, so
// that catalogs that failed together do not come back together.
func Backoff(failures int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstBackoff),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(mostBackoff),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0),
	)
	wait := b.NextBackOff()
	for range min(failures-1, 16) { // after 16 doublings any wait is the longest
		wait = b.NextBackOff()
	}
	return wait
}
