// Package content is the client of catalogd's content service, which serves the content of catalogs. It reads through the
// API server's service proxy, or directly if the service is reachable.
//
// All requests except long GraphQL queries use GET, so that the right to `get` services/proxy suffices.
package content

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// TokenHeader has the token for catalogd, because the API server does not forward the header Authorization.
const TokenHeader = "Catalogd-Authorization"

// A Service is the content service of one installation of catalogd. It is safe for concurrent use.
type Service struct {
	base   *url.URL // paths are relative to it
	http   *http.Client
	tokens *tokens // nil: none is needed, or the client has credentials

	// Missing, if not nil, is called once with catalogs that the answering replicas do not serve yet.
	Missing func(catalogs string)

	mu      sync.Mutex
	missing string // last reported
}

// tokens has the token for catalogd of all requests to a service.
type tokens struct {
	mint func(context.Context) (string, error)

	mu    sync.Mutex
	token string // empty until the service requires one
}

// newer returns another token than the refused one. Concurrent calls request only one.
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

// Get requests a path of the service, such as /catalogs/community/api/v1/all. The response is a success, and the caller must
// close its body. An error of the service, or of the API server in front of it, is an *Error.
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

// JSON decodes the response for a path.
func (s *Service) JSON(ctx context.Context, path string, query url.Values, out any) error {
	resp, err := s.Get(ctx, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(s, resp, out)
}

// identified sends a request, and again with a new token if the service requires authentication.
func (s *Service) identified(req *http.Request) (*http.Response, error) {
	token := s.tokens.last()
	resp, err := s.send(req, token)
	refused, ok := errors.AsType[*Error](err)
	if !ok || refused.Code != http.StatusUnauthorized || s.tokens == nil {
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
	if req.GetBody != nil { // the request may have been sent before
		var err error
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, unreachable(s, err)
	}
	if (resp.StatusCode < 200 || resp.StatusCode >= 300) && resp.StatusCode != http.StatusNotModified {
		defer resp.Body.Close()
		return nil, failure(s, resp)
	}
	return resp, nil
}

// String returns the URL of the service without a password.
func (s *Service) String() string { return s.base.Redacted() }

// Path returns the path of a view of a catalog, or of one of its versions: Path("community", "", "graphql").
func Path(catalog, version, view string) string {
	path := ""
	if catalog != "" {
		path = "/catalogs/" + url.PathEscape(catalog)
	}
	if version != "" {
		path += "/digests/" + url.PathEscape(version)
	}
	return path + "/api/v1/" + view
}

// Requests are retried because one replica may lack a catalog that others serve, and the next request may reach
// another replica.
const (
	attempts = 6
	pause    = 500 * time.Millisecond
	longest  = 2 * time.Second // the longest Retry-After that is honored
)

// missingHeader names the catalogs that other replicas serve and the answering replica lacks.
const missingHeader = "Catalogd-Missing"

// do sends a request. It retries if the service asks for that, or lacks catalogs that other replicas serve.
func (s *Service) do(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := s.identified(req)
		wait, missing := time.Duration(0), ""
		if err == nil {
			if missing = s.unreported(resp.Header.Get(missingHeader)); missing != "" {
				wait = pause
			}
		} else if refused, ok := errors.AsType[*Error](err); ok {
			wait = refused.retryAfter
		}
		if wait == 0 || attempt == attempts {
			s.report(missing)
			return resp, err
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-time.After(wait):
		}
	}
}

// unreported returns the missing catalogs, unless an earlier request waited for them.
func (s *Service) unreported(missing string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if missing == s.missing {
		return ""
	}
	return missing
}

// report reports missing catalogs once.
func (s *Service) report(missing string) {
	if missing == "" {
		return
	}
	s.mu.Lock()
	known := missing == s.missing
	s.missing = missing
	s.mu.Unlock()
	if !known && s.Missing != nil {
		s.Missing(missing)
	}
}

// retryAfter reads the header Retry-After, in seconds as catalogd sends it (RFC 9110, section 10.2.3). It returns 0 for
// a time that is too long to wait.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 || time.Duration(seconds)*time.Second > longest {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
