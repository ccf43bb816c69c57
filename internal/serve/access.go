package serve

import (
	"fmt"
	"log/slog"
	"net/http"
)

// Authorize tells who sent a request and whether they may read what its path names. An empty user with allowed false is somebody who
// did not say, or not prove, who they are. An error means that it cannot be told now. reason may be empty.
type Authorize func(r *http.Request) (user string, allowed bool, reason string, err error)

// access returns nil if the request may be answered. It asks before anything is looked up, so that nobody learns from a 404 what there is.
func (s *server) access(r *http.Request) error {
	if s.Authorize == nil {
		return nil
	}
	user, allowed, reason, err := s.Authorize(r)
	switch {
	case err != nil:
		if r.Context().Err() == nil { // else the client has gone, which is nobody's failure
			s.complaints.Do(func() {
				s.Logger.ErrorContext(r.Context(), "asking who may read; said once in a while", slog.Any("error", err))
			})
		}
		return &statusError{
			code:    http.StatusServiceUnavailable,
			text:    "the API server cannot be asked now whether you may read this; come again",
			headers: map[string]string{"Retry-After": "5"},
		}
	case allowed:
		return nil
	case user == "":
		return &statusError{
			code: http.StatusUnauthorized,
			text: "who you are is not said, or not proven: send a token that the API server accepts, as " +
				"\"Authorization: Bearer TOKEN\", or a client certificate of the cluster; or, through the API server's proxy, " +
				"one made for the audience catalogd.operatorframework.io, as \"Catalogd-Authorization: Bearer TOKEN\"",
			headers: map[string]string{"WWW-Authenticate": `Bearer realm="catalogd"`},
		}
	}
	if reason != "" {
		reason = fmt.Sprintf(" (%q)", reason)
	}
	return &statusError{
		code: http.StatusForbidden,
		text: fmt.Sprintf("user %q may not get the path %q%s; an admin can bind the ClusterRole catalogd-content-reader to them", user, r.URL.Path, reason),
	}
}
