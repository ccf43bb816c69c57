package auth

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/util/webhook"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// tokenReviews asks the API server whose a token is. Unlike the authenticator of k8s.io/apiserver it keeps apart that a token is
// nobody's, for whatever the API server says of it, and that there was no answer, which alone is an error.
type tokenReviews struct {
	client    authenticationv1client.TokenReviewInterface
	audiences authenticator.Audiences
	timeout   time.Duration
}

// kept returns an authenticator that keeps what reviews answers, and asks it for nothing else. Each has a cache of its own: who a
// token belongs to counts for the audiences that were asked about, and no other.
func kept(reviews *tokenReviews) authenticator.Token {
	answers := cache.New(reviews, false, tokenTTL, nobodyTTL)
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		response, ok, err := answers.AuthenticateToken(ctx, token)
		if err != nil {
			err = unanswered{err}
		}
		return response, ok, err
	})
}

// AuthenticateToken asks about one token, again while the API server fails in passing.
func (t *tokenReviews) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	question := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: t.audiences}}
	var answer *authenticationv1.TokenReview
	err := webhook.WithExponentialBackoff(ctx, backoff(), func() (err error) {
		answer, err = t.client.Create(ctx, question, metav1.CreateOptions{})
		return err
	}, webhook.DefaultShouldRetry)
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
