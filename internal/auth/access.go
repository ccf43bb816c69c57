package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// maxAnswers limits the cache of accessReviews.
const maxAnswers = 8192

// accessReviews decides by SubjectAccessReviews and caches the answers. It behaves as the delegating authorizer of
// k8s.io/apiserver, which adds 2 MB to a binary: the CEL libraries of the API server, for match conditions. That one keeps questions
// of up to 10,000 characters instead of their hashes.
type accessReviews struct {
	client  authorizationv1client.SubjectAccessReviewInterface
	answers *cache.LRUExpireCache // SubjectAccessReviewStatus by keyOf
}

func newAccessReviews(cfg *rest.Config) (*accessReviews, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeJSON // as in keyOf: a question has the same form in both
	client, err := authorizationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating a client for SubjectAccessReviews: %w", err)
	}
	return &accessReviews{client: client.SubjectAccessReviews(), answers: cache.NewLRUExpireCache(maxAnswers)}, nil
}

// decide decides whether the user may apply the verb to a path outside of the API server's resources. Group system:masters may
// do everything, without a question.
func (a *accessReviews) decide(ctx context.Context, q Question) (Decision, error) {
	if slices.Contains(q.User.GetGroups(), user.SystemPrivilegedGroup) {
		return Decision{Allowed: true}, nil
	}
	spec := specOf(q)
	key, err := keyOf(spec)
	if err != nil {
		return Decision{}, err
	}
	status, ok := a.cached(key)
	if !ok {
		if status, err = a.review(ctx, spec); err != nil {
			return Decision{}, err
		}
		ttl := denyTTL
		if status.Allowed {
			ttl = allowTTL
		}
		a.answers.Add(key, status, ttl)
	}
	if status.Allowed && status.Denied {
		return Decision{}, errors.New("the API server allows and denies it at once")
	}
	return Decision{Allowed: status.Allowed, Reason: status.Reason}, nil // neither allowed nor denied: no authorizer allows it
}

// specOf returns all that a decision depends on.
func specOf(q Question) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range q.User.GetExtra() {
		extra[key] = values
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: q.User.GetName(), UID: q.User.GetUID(), Groups: q.User.GetGroups(), Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: q.Path, Verb: q.Verb},
	}
}

// keyOf returns a hash of the question as JSON. Clients choose the path, and JSON has 6 bytes for some characters, so 8192 questions can
// have 500 MB. The cache keeps them after they expire.
func keyOf(spec authorizationv1.SubjectAccessReviewSpec) (string, error) {
	question, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("encoding a question: %w", err)
	}
	sum := sha256.Sum256(question)
	return string(sum[:]), nil
}

func (a *accessReviews) cached(key string) (status authorizationv1.SubjectAccessReviewStatus, ok bool) {
	entry, ok := a.answers.Get(key)
	if ok {
		status = entry.(authorizationv1.SubjectAccessReviewStatus)
	}
	return status, ok
}

// review asks the API server. It retries transient errors.
func (a *accessReviews) review(
	ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (status authorizationv1.SubjectAccessReviewStatus, err error) {
	err = retry(ctx, func() error {
		answer, err := a.client.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err == nil {
			status = answer.Status
		}
		return err
	})
	if err != nil {
		return status, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	return status, nil
}
