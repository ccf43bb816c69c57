package content

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

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
