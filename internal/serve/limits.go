package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/operator-catalogs/catalogd/internal/store"
)

// slots bound how many do a thing at a time.
type slots chan struct{}

// take takes a slot, to be given back by release, or returns an error, 429, if there is none left. Nobody waits for one: a client
// that comes again costs less than one that is held.
func (s slots) take(what string) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
		return nil, &statusError{
			code:    http.StatusTooManyRequests,
			text:    fmt.Sprintf("catalogd answers %d %s at a time, and has as many; come again in a moment", cap(s), what),
			headers: map[string]string{"Retry-After": "1"},
		}
	}
}

// bounded lets v run on at most MaxQueries requests at a time, with all others that are bounded. The slot is held until the
// reply is written; one that is small is when the kernel has taken it.
func (s *server) bounded(v view) view {
	return func(w http.ResponseWriter, r *http.Request, c store.Catalog) error {
		release, err := s.queries.take("queries")
		if err != nil {
			return err
		}
		defer release()
		return v(w, r, c)
	}
}

// maxBody bounds the body of a request in bytes: the largest is a GraphQL query and its variables.
const maxBody = 128 << 10

// readBody reads the request's body into memory, so that a client that sends slowly holds nothing else.
func readBody(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &statusError{code: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the request's body has more than %d bytes: ask for less at a time", maxBody)}
	}
	if err != nil {
		return badRequest("the request's body cannot be read to its end")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return nil
}
