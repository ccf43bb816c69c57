// Package content is the client of catalogd's content service: what the catalogs hold, as opposed to what the API
// server says of them. It reads
// through the API server's service proxy, or directly where the service can be reached.
//
// Only GET is used, but for long GraphQL queries, so that through the proxy the right to `get` services/proxy suffices.
package content

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// TokenHeader carries the token for catalogd: the API server takes the header Authorization away from what it passes on.
const TokenHeader = "Catalogd-Authorization"

// A Service answers for the catalogs of one installation of catalogd. It may be used by many at a time.
type Service struct {
	base   *url.URL // paths are relative to it
	http   *http.Client
	tokens *tokens // nil: none is needed, or the client carries credentials

	// Missing, if not nil, is told once the catalogs that answers about all of them lack, as the replica that answers does not have them yet.
	Missing func(catalogs string)

	mu      sync.Mutex
	lacking string // the catalogs that an answer lacked to the last attempt
}

// tokens has the token for catalogd that all who ask a service share.
type tokens struct {
	mint func(context.Context) (string, error)

	mu    sync.Mutex
	token string // what mint gave, once the service had asked for it
}

// newer returns a token other than one that was refused. Of many who want it at a time one makes it.
func (t *tokens) newer(ctx context.Context, refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != refused {
		return t.token, nil
	}
	token, err := t.mint(ctx)
	if err != nil {
		return "", err
	}
	t.token = token
	return token, nil
}

func (t *tokens) last() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token
}

// Get asks for a path of the service, such as /catalogs/community/api/v1/all. The reply is a success, and its body has to be closed. An
// error of the service, or of the API server on the way to it, is an *Error.
func (s *Service) Get(ctx context.Context, path string, query url.Values, header http.Header) (*http.Response, error) {
	u := s.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	return s.do(req)
}

// JSON reads a path that answers with JSON.
func (s *Service) JSON(ctx context.Context, path string, query url.Values, out any) error {
	resp, err := s.Get(ctx, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(s, resp, out)
}

// identified sends a request, once more with a token if the service wants to know who asks.
func (s *Service) identified(req *http.Request) (*http.Response, error) {
	token := s.tokens.last()
	resp, err := s.send(req, token)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != http.StatusUnauthorized || s.tokens == nil {
		return resp, err
	}
	if token, err = s.tokens.newer(req.Context(), token); err != nil {
		return nil, err
	}
	return s.send(req, token)
}

func (s *Service) send(req *http.Request, token string) (*http.Response, error) {
	if token != "" {
		req.Header.Set(TokenHeader, "Bearer "+token)
	}
	if req.GetBody != nil { // it may have been sent before
		var err error
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, unreachable(s, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, failure(s, resp)
	}
	return resp, nil
}

// String is where the service is, for people.
func (s *Service) String() string { return s.base.Redacted() }

// Path is that of a catalog's view, at a version of it if one is given: Path("community", "", "graphql").
func Path(catalog, version, view string) string {
	var b strings.Builder
	if catalog != "" {
		b.WriteString("/catalogs/" + url.PathEscape(catalog))
	}
	if version != "" {
		b.WriteString("/digests/" + url.PathEscape(version))
	}
	fmt.Fprintf(&b, "/api/v1/%s", view)
	return b.String()
}
