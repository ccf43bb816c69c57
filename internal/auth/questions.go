package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Limits of the questions to the API server, so that strangers cannot overload it through catalogd. Anybody can send tokens,
// so TokenReviews have a rate limit and do not compete with SubjectAccessReviews, which only known users cause. A web page may
// cause hundreds of those.
const (
	inFlight   = 16 // concurrent questions of a kind
	tokenRate  = 50 // TokenReviews per second
	tokenBurst = 100
)

// ErrBusy is the error of a question that exceeds a limit.
var ErrBusy = errors.New("too many TokenReviews or SubjectAccessReviews; retry later")

// backoff returns the retries for a failing API server: 4 attempts, about 1 s in total.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}
}

// bounded returns cfg with the limits for questions of one kind; a nil rate is no rate limit. A question fails after maxWait.
// Cached answers do not count.
func bounded(cfg *rest.Config, rate flowcontrol.RateLimiter, maxWait time.Duration) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	slots := make(chan struct{}, inFlight)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &limiter{next: next, slots: slots, rate: rate, maxWait: maxWait}
	})
	return cfg
}

// limiter limits concurrent requests and their rate.
type limiter struct {
	next  http.RoundTripper
	slots chan struct{}
	rate  flowcontrol.RateLimiter // nil: no limit

	maxWait time.Duration // for a slot and the rate
}

// RoundTrip calls next, or returns ErrBusy.
func (t *limiter) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), t.maxWait)
	defer cancel()
	if t.rate != nil {
		if err := t.rate.Wait(ctx); err != nil { // fails at once if the wait would be too long
			return nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	defer func() { <-t.slots }()
	return t.next.RoundTrip(r)
}
