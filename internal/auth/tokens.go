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
	err := webhook.WithExponentialBackoff(ctx, backoff(), func() (err error) {
		answer, err = t.client.Create(ctx, review, metav1.CreateOptions{})
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
