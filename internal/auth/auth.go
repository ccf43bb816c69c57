// Package auth identifies the clients of the content service and decides what they may read. It asks the API server of the
// cluster, like other add-ons, with parts of the delegating authenticator of k8s.io/apiserver:
//
//   - Authentication: by a bearer token (TokenReview) or a TLS client certificate, verified with the cluster's CA (key
//     client-ca-file of ConfigMap kube-system/extension-apiserver-authentication). Request headers of a front proxy are not
//     trusted, because none is in front of catalogd.
//   - Authorization: by SubjectAccessReview for a verb and a path. Group system:masters may read everything.
//
// Clients that use the service proxy of the API server, such as kubectl catalog, send a token in the header
// Catalogd-Authorization: the API server removes Authorization, the client certificate and front proxy headers
// (k8s.io/apiserver, pkg/endpoints/filters/authentication.go) and does not tell the service who the user is. That token must be
// issued for Audience, so that a proxy cannot use it elsewhere. If the header is present, no other credential counts.
//
// A path that covers all catalogs, /api/v1/{view}, is authorized as /catalogs/*/api/v1/{view}, which the rule "/catalogs/*"
// covers and rules for single catalogs do not. Its own path would be open to every account, because ClusterRole
// system:discovery allows group system:authenticated to get /api/*.
//
// Requests without any credentials belong to nobody, or with Config.Anonymous to user system:anonymous of group
// system:unauthenticated. Invalid credentials never do. Anonymous may read /catalogs/{catalog}/api/v1/all and
// /catalogs/{catalog}/api/v1/metas, each if the API server allows it that path or the literal path /catalogs/*/api/v1/all
// (metas). RBAC has no wildcard but a trailing one, so no rule covers these two views of all catalogs and nothing else; a rule
// can have the literal paths. They open no view over all catalogs, as /api/v1/all and /api/v1/metas do not exist. Every other
// path is denied without a question: a rule for "*" or "/catalogs/*" that somebody bound to strangers for another reason opens
// these two views only.
//
// Answers are cached: the user of a token for 1 minute, an invalid token for 10 seconds, allowed for 5 minutes and denied for
// 30 seconds. A deleted token or a removed right is valid for that long. Other questions are rate limited (ErrBusy); those
// about Anonymous have their own limits and cache, so that strangers do not delay users.
//
// The account of catalogd needs ClusterRole system:auth-delegator, and Role extension-apiserver-authentication-reader in
// kube-system; config/rbac binds both. Without the second, only tokens work.
package auth

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/operator-catalogs/catalogd/internal/auth/principal"
)

// How long answers of the API server are cached.
const (
	tokenTTL   = time.Minute
	invalidTTL = 10 * time.Second
	allowTTL   = 5 * time.Minute
	denyTTL    = 30 * time.Second
)

const (
	defaultTimeout = 5 * time.Second
	defaultMaxWait = 2 * time.Second
)

// Constants of package principal, which services import instead of this package.
const (
	Header   = principal.Header
	Audience = principal.Audience
)

type (
	// User is principal.User.
	User = principal.User
	// Credentials is principal.Credentials.
	Credentials = principal.Credentials
	// Question is principal.Question.
	Question = principal.Question
	// Decision is principal.Decision.
	Decision = principal.Decision
)

// Anonymous is principal.Anonymous.
var Anonymous = principal.Anonymous

// Config configures an Authorizer.
type Config struct {
	REST      *rest.Config  // reaches the API server with catalogd's own account
	Audiences []string      // of tokens in Authorization; none: that of the API server
	Anonymous bool          // Authenticate returns Anonymous for clients without credentials
	Timeout   time.Duration // of a question; 0: 5 s
	Logger    *slog.Logger

	tokenLimit flowcontrol.RateLimiter // of TokenReviews; nil: tokenRate and tokenBurst
	maxWait    time.Duration           // for a limit; 0: 2 s
}

// An Authorizer asks an API server. It is ready at once and safe for concurrent use. Client certificates work after Run has
// read the cluster's CA.
type Authorizer struct {
	certificates authenticator.Request // its errors mean that the certificate proves nothing
	tokens       authenticator.Request // of Authorization; errors other than unansweredError mean an invalid token
	ownTokens    authenticator.Request // the same for Header, passed as Authorization
	access       *accessReviews
	ofAnonymous  *accessReviews // for the questions about Anonymous
	anonymous    bool           // as in Config
	authorities  *authorities
	timeout      time.Duration
}

// unansweredError means that the API server did not say whose a token is.
type unansweredError struct{ error }

// New returns an Authorizer. It does not connect to the API server.
func New(cfg Config) (*Authorizer, error) {
	restConfig := rest.CopyConfig(cfg.REST)
	restConfig.QPS = -1 // bounded sets the limits
	tokenLimit := cmp.Or(cfg.tokenLimit, flowcontrol.NewTokenBucketRateLimiter(tokenRate, tokenBurst))
	maxWait := cmp.Or(cfg.maxWait, defaultMaxWait)
	tokenClient, err := authenticationv1client.NewForConfig(bounded(restConfig, tokenLimit, maxWait))
	if err != nil {
		return nil, fmt.Errorf("creating a client for TokenReviews: %w", err)
	}
	coreClient, err := corev1client.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the cluster's CA: %w", err)
	}
	a := &Authorizer{anonymous: cfg.Anonymous, timeout: cmp.Or(cfg.Timeout, defaultTimeout)}
	a.authorities = &authorities{client: coreClient, timeout: a.timeout, logger: cfg.Logger}
	a.certificates = group.NewAuthenticatedGroupAdder(
		x509request.NewDynamic(a.authorities.VerifyOptions, x509request.CommonNameUserConversion))
	tokensFor := func(audiences authenticator.Audiences) authenticator.Request {
		reviews := &tokenReviews{client: tokenClient.TokenReviews(), audiences: audiences, timeout: a.timeout}
		return group.NewAuthenticatedGroupAdder(bearertoken.New(cached(reviews)))
	}
	a.tokens, a.ownTokens = tokensFor(cfg.Audiences), tokensFor(authenticator.Audiences{Audience})
	if a.access, err = newAccessReviews(bounded(restConfig, nil, maxWait)); err != nil {
		return nil, err
	}
	anonymousLimit := flowcontrol.NewTokenBucketRateLimiter(anonymousRate, anonymousBurst)
	if a.ofAnonymous, err = newAccessReviews(bounded(restConfig, anonymousLimit, maxWait)); err != nil {
		return nil, err
	}
	return a, nil
}

// Run keeps the cluster's CA for client certificates current until ctx ends. It then returns nil.
func (a *Authorizer) Run(ctx context.Context) error {
	a.authorities.run(ctx)
	return nil
}

// Authenticate returns the user that the credentials belong to, nil if they prove no identity, or Anonymous. An error means that it is
// unknown now: the API server does not answer, or refuses to answer catalogd, or there are too many questions (ErrBusy).
// If ctx ended, the error is ctx.Err().
func (a *Authorizer) Authenticate(ctx context.Context, c Credentials) (User, error) {
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	who, err := a.authenticate(limited, c)
	if err != nil {
		return nil, fmt.Errorf("authenticating a client: %w", explain(ctx, err))
	}
	return who, nil
}

// authenticate is Authenticate without timeout and explanation.
func (a *Authorizer) authenticate(ctx context.Context, c Credentials) (User, error) {
	if a.anonymous && c.None() {
		return Anonymous, nil
	}
	if c.Own != nil {
		if len(c.Own) != 1 {
			return nil, nil
		}
		return owner(ctx, a.ownTokens, c.Own)
	}
	if len(c.Certificates) > 0 {
		r := (&http.Request{TLS: &tls.ConnectionState{PeerCertificates: c.Certificates}}).WithContext(ctx)
		if response, ok, err := a.certificates.AuthenticateRequest(r); err == nil && ok {
			return response.User, nil
		}
	}
	if who, err := owner(ctx, a.tokens, c.Authorization); who != nil || err != nil {
		return who, err
	}
	if len(c.Certificates) > 0 && !a.authorities.answered.Load() {
		return nil, errors.New("the cluster's CA for client certificates is not known yet")
	}
	return nil, nil
}

// owner returns the user of the token in the values of Authorization, nil if the token is invalid.
func owner(ctx context.Context, tokens authenticator.Request, authorization []string) (User, error) {
	if len(authorization) == 0 {
		return nil, nil
	}
	r := (&http.Request{Header: http.Header{"Authorization": authorization}}).WithContext(ctx)
	response, ok, err := tokens.AuthenticateRequest(r)
	if ok && err == nil && response.User.GetName() != "" {
		return response.User, nil
	}
	if err, ok := errors.AsType[unansweredError](err); ok {
		return nil, err.error
	}
	return nil, nil
}

// Authorize decides whether the user may apply the verb to the path. Errors are those of Authenticate.
func (a *Authorizer) Authorize(ctx context.Context, q Question) (Decision, error) {
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	asked := a.access
	paths, hint := resourcePath(q.Path)
	if q.User == Anonymous {
		asked, paths, hint = a.ofAnonymous, anonymousPaths(q.Path), ""
	}
	denied := Decision{Reason: hint}
	for _, resource := range paths {
		decision, err := asked.decide(limited, Question{User: q.User, Verb: q.Verb, Path: resource})
		if err != nil {
			return Decision{}, fmt.Errorf("authorizing %s to %s %q: %w", q.User.GetName(), q.Verb, resource, explain(ctx, err))
		}
		if decision.Allowed {
			return decision, nil
		}
		denied.Reason = cmp.Or(decision.Reason, hint)
	}
	return denied, nil
}

// resourcePath returns the path to authorize, none if it is always denied, and a hint for people whose request is denied.
func resourcePath(requested string) (resource []string, hint string) {
	// A rule for /catalogs/a/* must not allow /catalogs/a/../b, however that is interpreted later.
	if clean := path.Clean(requested); clean != requested && clean+"/" != requested {
		return nil, fmt.Sprintf("the path is not clean; request %q", clean)
	}
	if strings.HasPrefix(requested, "/api/") {
		path := "/catalogs/*" + requested
		return []string{path}, fmt.Sprintf("a request about all catalogs needs access to %q, which ClusterRole catalogd-content-reader has", path)
	}
	return []string{requested}, ""
}

// explain returns the error of ctx if that caused err, and otherwise err with its remedy if there is one.
func explain(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (the account of catalogd needs ClusterRole system:auth-delegator; config/rbac binds it)", err)
	}
	return err
}
