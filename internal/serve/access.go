package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"golang.org/x/time/rate"

	"github.com/operator-catalogs/catalogd/internal/auth/principal"
)

// Access identifies clients and decides what they may read; *auth.Authorizer implements it.
type Access interface {
	Authenticate(ctx context.Context, credentials principal.Credentials) (principal.User, error)
	Authorize(ctx context.Context, question principal.Question) (principal.Decision, error)
}

// gate refuses requests whose sender may not read the path.
type gate struct {
	access   Access // nil: everybody may read
	failures rate.Sometimes
	logger   *slog.Logger
}

// check returns the sender of r if it may read its path; nil if everybody may. It runs before any lookup, so a 404 reveals
// nothing. It removes the credentials from the headers of r.
func (g *gate) check(r *http.Request) (principal.User, error) {
	if g.access == nil {
		return nil, nil
	}
	user, decision, err := g.ask(r)
	switch {
	case err != nil:
		return nil, g.unanswered(r, err)
	case decision.Allowed:
		return user, nil
	case user == nil, user == principal.Anonymous:
		return nil, &statusError{
			code: http.StatusUnauthorized,
			text: "authentication required: send a token that the API server accepts as \"Authorization: Bearer TOKEN\", or a client " +
				"certificate of the cluster; through the API server's proxy, send a token for the audience " + principal.Audience +
				" as \"" + principal.Header + ": Bearer TOKEN\"",
			headers: map[string]string{"WWW-Authenticate": `Bearer realm="catalogd"`},
		}
	}
	return nil, forbidden(principal.Question{User: user, Path: r.URL.Path}, decision, "catalogd-content-reader")
}

// unanswered returns the response if the API server cannot authorize a request.
func (g *gate) unanswered(r *http.Request, err error) error {
	if r.Context().Err() == nil { // otherwise the client has gone
		g.failures.Do(func() {
			g.logger.ErrorContext(r.Context(), "checking access failed; repeated failures are not logged", slog.Any("error", err))
		})
	}
	return unavailable(5, "the API server cannot authorize the request now; retry later")
}

// forbidden returns the response for a path that a user may not read, and a ClusterRole may.
func forbidden(question principal.Question, decision principal.Decision, clusterRole string) error {
	reason := decision.Reason
	if reason != "" {
		reason = fmt.Sprintf(" (%q)", reason)
	}
	return &statusError{
		code: http.StatusForbidden,
		text: fmt.Sprintf("forbidden: user %q cannot get path %q%s; an admin can bind ClusterRole %s to the user",
			question.User.GetName(), question.Path, reason, clusterRole),
	}
}

func (g *gate) ask(r *http.Request) (user principal.User, decision principal.Decision, err error) {
	credentials := principal.Credentials{Authorization: r.Header["Authorization"], Own: r.Header[principal.Header]}
	if r.TLS != nil {
		credentials.Certificates = r.TLS.PeerCertificates
	}
	r.Header.Del("Authorization")
	r.Header.Del(principal.Header)
	user, err = g.access.Authenticate(r.Context(), credentials)
	if err != nil || user == nil {
		return nil, decision, err
	}
	// Every request only reads, whatever its method.
	decision, err = g.access.Authorize(r.Context(), principal.Question{User: user, Verb: "get", Path: r.URL.Path})
	return user, decision, err
}
