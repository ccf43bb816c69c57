// Package auth tells who sent a request to the content service, and whether they may read it. It asks the cluster's API
// server, as other add-ons do, by k8s.io/apiserver's delegating authorizer and the parts of its delegating authenticator:
//
//   - who: a bearer token, by TokenReview, or a TLS client certificate, by the authorities of the cluster (key client-ca-file
//     of ConfigMap kube-system/extension-apiserver-authentication). Nobody is taken for system:anonymous. What a front proxy
//     says of its users (request headers) is not believed: no such proxy stands before catalogd.
//   - whether: by SubjectAccessReview on the request's path, verb "get" whatever the method, since every request only reads.
//     Group system:masters may read without a question, as everywhere in Kubernetes.
//
// Who comes through the API server's service proxy, as kubectl catalog does, sends the token in the header Catalogd-Authorization:
// the API server takes Authorization, client certificate and the headers of front proxies as meant for itself, removes them
// (k8s.io/apiserver, pkg/endpoints/filters/authentication.go), and says nothing of its user to the service. Other headers it
// passes on. A token in that header must be made for Audience, so that it is worth nothing at the API server or elsewhere: it
// passes through hands that should not be able to use it. Such a token is nobody's in Authorization, and one that the API server
// takes is nobody's there. Who sends the header is whom it names, or nobody; nothing else that the request holds is looked at.
//
// A path that answers from all catalogs, /api/v1/{view}, is asked for as /catalogs/*/api/v1/{view}, which the rule
// "/catalogs/*" covers and those of single catalogs do not. Asked for as it is, it would be open to whoever has any account:
// ClusterRole system:discovery, which every cluster gives to group system:authenticated, allows to get /api/*.
//
// Answers are kept: who a token belongs to for 1 minute, that it is nobody's for 10 seconds, that somebody may read a path for
// 5 minutes, that they may not for 30 seconds. So long a deleted token or a withdrawn right goes on to work. What is not kept is
// asked, within bounds: see ErrBusy. Who sends neither token nor certificate is answered without a question.
//
// catalogd's account needs ClusterRole system:auth-delegator, and Role extension-apiserver-authentication-reader in
// kube-system; config/rbac binds both. Without the second, tokens still work.
package auth

import (
	"cmp"
	"context"
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
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	authenticationv1client "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1client "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// How long an answer of the API server is kept; see the package comment. tokenRate bounds how many of tokens there are.
const (
	tokenTTL  = time.Minute
	nobodyTTL = 10 * time.Second
	allowTTL  = 5 * time.Minute
	denyTTL   = 30 * time.Second
)

const defaultTimeout = 5 * time.Second

// Header is that of a token made for Audience; see the package comment.
const (
	Header   = "Catalogd-Authorization"
	Audience = "catalogd.operatorframework.io"
)

// Config says whom to ask, and how.
type Config struct {
	REST      *rest.Config  // how to reach the API server, as catalogd's own account
	Audiences []string      // tokens in Authorization must be made for one of them; none: for the API server itself
	Timeout   time.Duration // most time that the questions about one request may take together; 0: 5 s
	Logger    *slog.Logger
}

// An Authorizer asks an API server about requests. It may be used at once, by many at a time; client certificates are
// known once Run has read the cluster's authorities.
type Authorizer struct {
	certificates authenticator.Request // its errors are answers: the certificate proves nothing
	tokens       authenticator.Request // of Authorization; its errors are answers too, but for those of type unanswered
	own          authenticator.Request // the same of Header, which it is given as Authorization
	authorizer   authorizer.Authorizer
	authorities  *authorities
	timeout      time.Duration
}

// unanswered is that the API server did not say whose a token is.
type unanswered struct{ error }

// New returns an Authorizer. It asks the API server nothing yet, so the server may be absent.
func New(cfg Config) (*Authorizer, error) {
	restConfig := rest.CopyConfig(cfg.REST)
	restConfig.QPS = -1 // bounded has the bounds
	tokenClient, err := authenticationv1client.NewForConfig(bounded(restConfig, flowcontrol.NewTokenBucketRateLimiter(tokenRate, tokenBurst)))
	if err != nil {
		return nil, fmt.Errorf("making a client for TokenReviews: %w", err)
	}
	accessClient, err := authorizationv1client.NewForConfig(bounded(restConfig, nil))
	if err != nil {
		return nil, fmt.Errorf("making a client for SubjectAccessReviews: %w", err)
	}
	coreClient, err := corev1client.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client for the cluster's authorities: %w", err)
	}
	a := &Authorizer{timeout: cmp.Or(cfg.Timeout, defaultTimeout)}
	a.authorities = &authorities{client: coreClient, timeout: a.timeout, logger: cfg.Logger}
	a.certificates = group.NewAuthenticatedGroupAdder(x509.NewDynamic(a.authorities.VerifyOptions, x509.CommonNameUserConversion))
	reviews := tokenClient.TokenReviews()
	a.tokens = group.NewAuthenticatedGroupAdder(bearertoken.New(kept(&tokenReviews{client: reviews, audiences: cfg.Audiences, timeout: a.timeout})))
	a.own = group.NewAuthenticatedGroupAdder(bearertoken.New(kept(&tokenReviews{client: reviews, audiences: authenticator.Audiences{Audience}, timeout: a.timeout})))
	retry := backoff()
	delegating, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: accessClient,
		AllowCacheTTL:             allowTTL,
		DenyCacheTTL:              denyTTL,
		WebhookRetryBackoff:       &retry,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authorizer: %w", err)
	}
	a.authorizer, err = union.New(
		union.NamedAuthorizer{AuthorizerName: "privileged", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "delegating", Authorizer: delegating})
	if err != nil {
		return nil, fmt.Errorf("making the authorizer: %w", err)
	}
	return a, nil
}

// Run keeps the cluster's authorities for client certificates current until ctx ends, and then returns nil. An API server
// that does not answer is asked again.
func (a *Authorizer) Run(ctx context.Context) error {
	a.authorities.run(ctx)
	return nil
}

// Authorize tells who sent r, and whether they may read its path. An empty user with allowed false is somebody who did not
// say who they are, or could not prove it. reason is what the API server gives for its answer, often nothing. An error: it
// cannot be told now, because the API server does not answer, or not to catalogd, or is asked too much (ErrBusy), or because
// the client has gone, which r's context tells (context.Canceled) and is nobody's failure. A bearer token in Authorization that
// proved good, and whatever stands in Header, is removed from r, lest somebody else come by it.
func (a *Authorizer) Authorize(r *http.Request) (user string, allowed bool, reason string, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.timeout)
	defer cancel()
	who, err := a.authenticate(ctx, r)
	if err != nil {
		return "", false, "", fmt.Errorf("asking the API server who sent the request: %w", explain(r, err))
	}
	if who == nil {
		return "", false, "", nil
	}
	asked, hint := askedPath(r.URL.Path)
	if asked == "" {
		return who.GetName(), false, hint, nil
	}
	decision, reason, err := a.authorizer.Authorize(ctx, authorizer.AttributesRecord{User: who, Verb: "get", Path: asked})
	if err != nil {
		return who.GetName(), false, "", fmt.Errorf("asking the API server whether %s may get %q: %w", who.GetName(), asked, explain(r, err))
	}
	if decision != authorizer.DecisionAllow {
		return who.GetName(), false, cmp.Or(reason, hint), nil
	}
	return who.GetName(), true, reason, nil
}

// askedPath returns the path to ask about, "" if nobody may have it, and what to tell people with a refusal.
func askedPath(requested string) (asked, hint string) {
	// A rule that allows /catalogs/a/* must not be taken to allow /catalogs/a/../b, however that is read later.
	if clean := path.Clean(requested); clean != requested && clean+"/" != requested {
		return "", fmt.Sprintf("the path is not in its plain form, %q", clean)
	}
	if strings.HasPrefix(requested, "/api/") {
		asked = "/catalogs/*" + requested
		return asked, fmt.Sprintf("it answers from all catalogs and so needs a right to %q, as ClusterRole catalogd-content-reader gives it", asked)
	}
	return requested, ""
}

// authenticate returns who sent r, nil if that cannot be known, or an error if it can, but not now.
func (a *Authorizer) authenticate(ctx context.Context, r *http.Request) (user.Info, error) {
	withContext := r.WithContext(ctx) // with the header of r
	if values, ok := r.Header[Header]; ok {
		r.Header.Del(Header)
		if len(values) != 1 {
			return nil, nil
		}
		withContext.Header = http.Header{"Authorization": values}
		return owner(a.own, withContext)
	}
	if response, ok, err := a.certificates.AuthenticateRequest(withContext); err == nil && ok {
		return response.User, nil
	}
	if who, err := owner(a.tokens, withContext); who != nil || err != nil {
		return who, err
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && !a.authorities.answered.Load() {
		return nil, errors.New("the cluster's authorities for client certificates were not read yet")
	}
	return nil, nil
}

// owner returns whose the token in the Authorization of r is, nil if it is nobody's, or an error if that cannot be known now.
func owner(tokens authenticator.Request, r *http.Request) (user.Info, error) {
	response, ok, err := tokens.AuthenticateRequest(r)
	if ok && err == nil && response.User.GetName() != "" {
		return response.User, nil
	}
	if err, ok := errors.AsType[unanswered](err); ok {
		return nil, err.error
	}
	return nil, nil
}

// explain returns err as people can use it: with the remedy if there is one, and as the end of r if that is why it failed.
func explain(r *http.Request, err error) error {
	if gone := r.Context().Err(); gone != nil {
		return gone
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (catalogd's account needs ClusterRole system:auth-delegator; config/rbac binds it)", err)
	}
	return err
}
