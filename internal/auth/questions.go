package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Limits of the questions to the API server, so that strangers cannot overload it through catalogd. Anybody can send tokens,
// so TokenReviews have a rate limit and do not compete with SubjectAccessReviews of known users. A web page may cause hundreds
// of those. SubjectAccessReviews of Anonymous have a rate limit, too: anybody can invent names of catalogs.
const (
	inFlight   = 16 // concurrent questions of a kind
	tokenRate  = 50 // TokenReviews per second
	tokenBurst = 100

	anonymousRate  = tokenRate // SubjectAccessReviews of Anonymous per second
	anonymousBurst = tokenBurst
)

// ErrBusy is the error of a question that exceeds a limit.
var ErrBusy = errors.New("too many TokenReviews or SubjectAccessReviews; retry later")

// retry calls ask again after transient errors of the API server: at most 4 attempts, about 1 s in total. It behaves as
// WithExponentialBackoff of k8s.io/apiserver/pkg/util/webhook, which adds 0.5 MB to a binary: clients of proxies.
func retry(ctx context.Context, ask func() error) error {
	var last error
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(context.Context) (done bool, err error) {
		last = ask()
		if transient(last) {
			return false, nil
		}
		return true, last
	})
	return cmp.Or(last, err) // err says only that the attempts or ctx ended
}

// transient reports whether the API server may answer a question that failed with err.
func transient(err error) bool {
	_, delayed := apierrors.SuggestsClientDelay(err)
	return delayed || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
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

// tokenReviews authenticates tokens with the API server. Unlike the authenticator of k8s.io/apiserver it returns an error only
// if there was no answer, not for an invalid token.
type tokenReviews struct {
	client    authenticationv1client.TokenReviewInterface
	audiences authenticator.Audiences
	timeout   time.Duration
}

// cached returns an authenticator that caches the answers of reviews. Each has its own cache, because an answer is valid for the
// audiences of reviews only.
func cached(reviews *tokenReviews) authenticator.Token {
	answers := cache.New(reviews, false, tokenTTL, invalidTTL)
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		response, ok, err := answers.AuthenticateToken(ctx, token)
		if err != nil {
			err = unansweredError{err}
		}
		return response, ok, err
	})
}

// AuthenticateToken reviews a token. It retries transient errors of the API server.
func (t *tokenReviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.audiences}}
	var answer *authenticationv1.TokenReview
	err := retry(ctx, func() (err error) {
		answer, err = t.client.Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("creating a TokenReview: %w", err)
	}
	status := answer.Status
	if !status.Authenticated || len(t.audiences) > 0 && len(t.audiences.Intersect(status.Audiences)) == 0 {
		return nil, false, nil
	}
	extra := map[string][]string{}
	for key, values := range status.User.Extra {
		extra[key] = values
	}
	return &authenticator.Response{User: &user.DefaultInfo{
		Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra,
	}}, true, nil
}
