package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/semaphore"

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

// budget bounds what replies hold while clients read them, who may take their time. What is small is always answered.
type budget struct {
	*semaphore.Weighted
	small  int64
	remedy string
}

// take takes size of the budget, to be given back by release, or returns an error, 429, if that is not left.
func (b budget) take(size int64) (release func(), err error) {
	if size <= b.small {
		return func() {}, nil
	}
	if !b.TryAcquire(size) {
		return nil, &statusError{
			code:    http.StatusTooManyRequests,
			text:    "catalogd is sending more large replies than it can hold; come again, or " + b.remedy,
			headers: map[string]string{"Retry-After": "1"},
		}
	}
	return func() { b.Release(size) }, nil
}

// What a reply holds of a selection are the places of its blobs, up to 28 bytes each: a quarter of a GB at most.
const (
	fewSelected = 1000
	maxSelected = 8 << 20
)

func newSelected() budget {
	return budget{semaphore.NewWeighted(maxSelected), fewSelected, fmt.Sprintf("ask for at most %d blobs at a time", fewSelected)}
}

// What a reply holds of GraphQL is all of it, in bytes.
const (
	smallAnswer = 64 << 10
	maxAnswers  = 256 << 20
)

func newAnswers() budget {
	return budget{semaphore.NewWeighted(maxAnswers), smallAnswer, "ask for fewer fields or a smaller first"}
}

// serveSelection serves what a selection finds. Finding takes a slot, as any query; it is given back before the reply is written, so
// a client that reads slowly holds none.
func (s *server) serveSelection(w http.ResponseWriter, r *http.Request, c store.Catalog, tag string, find selection) error {
	blobs, err := s.find(find)
	if err != nil {
		return err
	}
	release, err := s.selected.take(int64(blobs.Len()))
	if err != nil {
		return err
	}
	defer release()
	return s.serveBlobs(w, r, c, tag, blobs)
}

func (s *server) find(find selection) (*store.Blobs, error) {
	release, err := s.queries.take("queries")
	if err != nil {
		return nil, err
	}
	defer release()
	return find()
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
