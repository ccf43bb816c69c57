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

// Bounds of what is asked of the API server, lest strangers drive it by catalogd. Who sends tokens may be anybody, so questions
// about tokens are bounded in number per second too, and take no place from questions about rights, which only those whom the
// API server knows cause: what a page shows may well be hundreds of paths.
const (
	inFlight   = 16 // questions of a kind at a time, 32 together
	tokenRate  = 50 // questions about tokens per second
	tokenBurst = 100
	placeWait  = 2 * time.Second // for a place
)

// ErrBusy is that of a question which was not asked, since too many others are.
var ErrBusy = errors.New("more is asked about tokens and rights than the API server may be asked at a time; come again")

// backoff is for an API server that fails: 4 times, about 1 s together.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}
}

// bounded returns cfg for questions of one kind; rate nil: any number per second. An answer that is kept is no question, and so
// comes at once.
func bounded(cfg *rest.Config, rate flowcontrol.RateLimiter) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	places := make(chan struct{}, inFlight)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &turnstile{next: next, places: places, rate: rate}
	})
	return cfg
}

// A turnstile lets as many requests through as there are places, and as rate says.
type turnstile struct {
	next   http.RoundTripper
	places chan struct{}
	rate   flowcontrol.RateLimiter // nil: any number
}

// RoundTrip is that of next, or ErrBusy.
func (t *turnstile) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), placeWait)
	defer cancel()
	if t.rate != nil {
		if err := t.rate.Wait(ctx); err != nil { // at once, if it would be too late
			return nil, fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	defer func() { <-t.places }()
	return t.next.RoundTrip(r)
}
