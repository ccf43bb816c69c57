// Package auth tells who sent a request to the content service, and whether they may read it. It asks the cluster's API
// server, as other add-ons do, by the delegating authenticator and authorizer of k8s.io/apiserver:
//
//   - who: a bearer token, by TokenReview, or a TLS client certificate, by the authorities of the cluster (key client-ca-file
//     of ConfigMap kube-system/extension-apiserver-authentication). Nobody is taken for system:anonymous. What a front proxy
//     says of its users (request headers) is not believed: no such proxy stands before catalogd.
//   - whether: by SubjectAccessReview on the request's path, verb "get" whatever the method, since every request only reads.
//     Group system:masters may read without a question, as everywhere in Kubernetes.
//
// A path that answers from all catalogs, /api/v1/{view}, is asked for as /catalogs/*/api/v1/{view}, which the rule
// "/catalogs/*" covers and those of single catalogs do not. Asked for as it is, it would be open to whoever has any account:
// ClusterRole system:discovery, which every cluster gives to group system:authenticated, allows to get /api/*.
//
// Answers are kept: who a token belongs to for 1 minute, that somebody may read a path for 5 minutes, that they may not for
// 30 seconds. So long a deleted token or a withdrawn right goes on to work.
//
// catalogd's account needs ClusterRole system:auth-delegator, and Role extension-apiserver-authentication-reader in
// kube-system; config/rbac binds both. Without the second, tokens still work.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// How long an answer of the API server is kept; see the package comment. That a token is nobody's is not kept where the API
// server gives an error text with it, as it does for those it cannot read.
const (
	tokenTTL = time.Minute
	allowTTL = 5 * time.Minute
	denyTTL  = 30 * time.Second
)

// defaultTimeout is the one of the API servers that delegate.
const defaultTimeout = 10 * time.Second

// Config says whom to ask, and how.
type Config struct {
	REST      *rest.Config  // how to reach the API server, as catalogd's own account
	Audiences []string      // tokens must be made for one of them; none: for the API server itself
	Timeout   time.Duration // most time that the questions about one request may take together; 0: 10 s
	Logger    *slog.Logger
}

// An Authorizer asks an API server about requests. It may be used at once, by many at a time; client certificates are
// known once Run has read the cluster's authorities.
type Authorizer struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	authorities   *authorities
	audiences     authenticator.Audiences
	timeout       time.Duration
}

// New returns an Authorizer. It asks the API server nothing yet, so the server may be absent.
func New(cfg Config) (*Authorizer, error) {
	restConfig := rest.CopyConfig(cfg.REST)
	restConfig.QPS = -1 // the API server's priority and fairness decides
	clients, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	a := &Authorizer{audiences: cfg.Audiences, timeout: cmp.Or(cfg.Timeout, defaultTimeout)}
	a.authorities = &authorities{client: clients.CoreV1(), timeout: a.timeout, logger: cfg.Logger}
	a.authenticator, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            clients.AuthenticationV1(),
		TokenAccessReviewTimeout:           a.timeout,
		WebhookRetryBackoff:                webhook.DefaultRetryBackoff(),
		CacheTTL:                           tokenTTL,
		ClientCertificateCAContentProvider: a.authorities,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("making the authenticator: %w", err)
	}
	delegating, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: clients.AuthorizationV1(),
		AllowCacheTTL:             allowTTL,
		DenyCacheTTL:              denyTTL,
		WebhookRetryBackoff:       webhook.DefaultRetryBackoff(),
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
// cannot be told now, because the API server does not answer, or not to catalogd. A bearer token that proved good is
// removed from r's header, lest somebody else come by it.
func (a *Authorizer) Authorize(r *http.Request) (user string, allowed bool, reason string, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), a.timeout)
	defer cancel()
	who, err := a.authenticate(ctx, r)
	if err != nil {
		return "", false, "", fmt.Errorf("asking the API server who sent the request: %w", explain(err))
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
		return who.GetName(), false, "", fmt.Errorf("asking the API server whether %s may get %q: %w", who.GetName(), asked, explain(err))
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
	if len(a.audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, a.audiences)
	}
	response, ok, err := a.authenticator.AuthenticateRequest(r.WithContext(ctx))
	switch {
	case ok && response.User.GetName() != "":
		return response.User, nil
	case unanswered(err) != nil:
		return nil, unanswered(err)
	case r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && !a.authorities.answered.Load():
		return nil, errors.New("the cluster's authorities for client certificates were not read yet")
	default:
		return nil, nil
	}
}

// unanswered returns the part of err that is for want of an answer, if any. The other errors of an authenticator are
// answers: the certificate cannot be verified, the token is nobody's.
func unanswered(err error) error {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok { // it has no Unwrap
		for _, err := range all.Errors() {
			if err := unanswered(err); err != nil {
				return err
			}
		}
		return nil
	}
	_, status := errors.AsType[*apierrors.StatusError](err) // of the review itself, such as 403 to catalogd
	_, request := errors.AsType[*url.Error](err)
	_, network := errors.AsType[net.Error](err)
	if status || request || network || errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return nil
}

// explain adds the remedy to an error that has one.
func explain(err error) error {
	if part := unanswered(err); part != nil {
		err = part
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (catalogd's account needs ClusterRole system:auth-delegator; config/rbac binds it)", err)
	}
	return err
}
