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
		lacking := ""
		if err == nil {
			lacking = resp.Header.Get(missingHeader)
		}
		wait := s.later(lacking, err)
		if wait == 0 || attempt == attempts {
			s.tellMissing(lacking)
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

// later returns the time to wait before a retry, or 0 for no retry. It does not wait again for catalogs that an
// earlier request waited for.
func (s *Service) later(lacking string, err error) time.Duration {
	var refused *Error
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case lacking != "" && lacking != s.lacking:
		return pause
	case errors.As(err, &refused) && refused.retryAfter > 0 && refused.retryAfter <= longest:
		return refused.retryAfter
	}
	return 0
}

// tellMissing reports missing catalogs once.
func (s *Service) tellMissing(lacking string) {
	s.mu.Lock()
	known := lacking == "" || lacking == s.lacking
	if !known {
		s.lacking = lacking
	}
	s.mu.Unlock()
	if !known && s.Missing != nil {
		s.Missing(lacking)
	}
}

// retryAfter reads the header Retry-After, in seconds as catalogd sends it (RFC 9110, section 10.2.3).
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
